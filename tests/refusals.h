// Declares helpers that return the message of the UserError that an action throws.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "plimsoll/error.h"

namespace plimsoll {

/// Returns the message of the UserError of `action`, "accepted" if there is none. The test fails if the error is not of
/// `kind`.
inline std::string refusal_of(const std::function<void()>& action, std::optional<UserError::Kind> kind = {}) {
  try {
    action();
  } catch (const UserError& error) {
    EXPECT_EQ(error.kind(), kind.value_or(error.kind()));
    return error.what();
  }
  return "accepted";
}

/// Returns the message of the UserError of `action`; the test fails if there is none.
inline std::string user_error_of(const std::function<void()>& action) {
  const std::string message = refusal_of(action);
  EXPECT_NE(message, "accepted") << "no UserError";
  return message;
}

}  // namespace plimsoll
