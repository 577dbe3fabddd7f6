// Regular expressions that tokenizers split text by, written for Oniguruma and matched by PCRE2.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace plimsoll {

class SplitPattern {
 public:
  /// Throws UserError that begins with `name` for what is no pattern, or has what the two libraries see differently.
  SplitPattern(const std::string& pattern, std::string name);
  ~SplitPattern();
  SplitPattern(SplitPattern&&) noexcept;

  /// Calls visit(begin, end) for each match in `text`, valid UTF-8, from front to back; they do not overlap, and may be
  /// empty. Throws UserError where matching takes more than a bounded effort. Not from several threads at once.
  void each_match(std::string_view text, const std::function<void(size_t begin, size_t end)>& visit) const;

 private:
  struct Compiled;
  std::string name_;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace plimsoll
