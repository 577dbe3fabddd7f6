// Declares helpers that return the message of a refusal.
#pragma once

#include <functional>
#include <string>

#include "plimsoll/error.h"

namespace plimsoll::testing {

inline std::string message_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no UserError";
}

}  // namespace plimsoll::testing
