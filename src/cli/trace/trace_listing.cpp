#include "cli/trace/trace_listing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "base/nearest.h"
#include "base/quoted.h"
#include "base/text_width.h"
#include "cli/screen/short_numbers.h"
#include "cli/screen/table.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "plimsoll/trace.h"

namespace plimsoll::cli {
namespace {

// Returns "b12 float32[64, 32]"; a view of a part of its buffer has its offset and strides too: "b12 float32[64] at 32
// by [2]".
std::string text_of(const View& view) {
  if (view.buffer == kNoBuffer) return "none";
  std::string text = fmt::format("b{} {}[{}]", view.buffer, name_of(view.dtype), fmt::join(view.sizes, ", "));
  if (view.offset != 0) text += fmt::format(" at {}", view.offset);
  int64_t dense = 1;
  bool is_dense = true;
  for (size_t i = view.sizes.size(); i-- > 0;) {
    is_dense &= view.sizes[i] == 1 || view.strides[i] == dense;
    dense *= view.sizes[i];
  }
  if (!is_dense) text += fmt::format(" by [{}]", fmt::join(view.strides, ", "));
  return text;
}

std::string text_of(const std::vector<View>& views) {
  std::vector<std::string> texts;
  for (const View& view : views) texts.push_back(text_of(view));
  return fmt::format("{}", fmt::join(texts, ", "));
}

// Returns "(b1 float32[2], [b2 …, b3 …]) -> b4 float32[2], !b1 float32[2]". Written operands follow the arrow; an
// exclamation mark means in place.
std::string operands_of(const Op& op) {
  std::vector<std::string> read, written;
  for (const Argument& argument : op.arguments) {
    if (argument.kind == Argument::Kind::constant) continue;
    const std::string text = text_of(argument.views);
    const bool list = argument.kind == Argument::Kind::tensor_list;
    if (argument.written) {
      written.push_back("!" + (list ? "[" + text + "]" : text));
    } else {
      read.push_back(list ? "[" + text + "]" : text);
    }
  }
  for (const View& view : op.results) written.push_back(text_of(view));
  return fmt::format("({}) -> {}", fmt::join(read, ", "),
                     written.empty() ? "nothing" : fmt::format("{}", fmt::join(written, ", ")));
}

class Listing {
 public:
  Listing(const Trace& trace, const std::vector<int64_t>& offsets, const ListingOptions& options)
      : trace_(trace), offsets_(offsets), options_(options), lifetimes_(lifetimes_of(trace)) {
    end_ = static_cast<int32_t>(trace.ops.size());
    if (options.segment) choose(*options.segment);
  }

  std::string text() {
    segments();
    if (!options_.summary) {
      operators();
      buffers();
    }
    totals_by_operator();
    return std::move(text_);
  }

 private:
  void choose(const std::string& name) {
    const Segment* segment = trace_.segment_named(name);
    if (!segment) {
      std::vector<std::string> names;
      for (const Segment& each : trace_.segments) names.emplace_back(name_of(each.kind));
      const auto meant = nearest(name, names);
      throw UserError(fmt::format("the trace has no segment {}{}; it has {}", in_quotes(name),
                                  meant ? fmt::format(" (did you mean '{}'?)", *meant) : "", fmt::join(names, ", ")));
    }
    begin_ = segment->begin;
    end_ = segment->end;
  }

  // Returns how many of `count` are listed; say_rest() adds the line for the rest.
  int64_t shown(int64_t count) const { return std::min(count, options_.limit); }
  void say_rest(int64_t count, const char* what) {
    if (const int64_t rest = count - shown(count); rest > 0) add("… and {} more {}\n", rest, what);
  }

  void segments() {
    Table table(
        {{"segment"}, {"ops", Align::right}, {"first", Align::right}, {"flops", Align::right}, {"moved", Align::right}},
        "Segments");
    for (const Segment& segment : trace_.segments) {
      if (options_.segment && name_of(segment.kind) != *options_.segment) continue;
      double flops = 0;
      int64_t moved = 0;
      for (int32_t i = segment.begin; i < segment.end; ++i) {
        flops += trace_.ops[i].flops;
        moved += trace_.ops[i].bytes_moved;
      }
      table.add_row({std::string(name_of(segment.kind)), std::to_string(segment.end - segment.begin),
                     std::to_string(segment.begin), short_count(flops), format_bytes(moved)});
    }
    text_ += table.to_string(options_.screen);
  }

  void operators() {
    title("Operators");
    const int64_t count = end_ - begin_;
    for (int32_t i = begin_; i < begin_ + shown(count); ++i) {
      const Op& op = trace_.ops[i];
      const std::string constants = describe_constants(op);
      std::string line = fmt::format("{:>6}  {:<10}  {} {}", i, name_of(op.phase), op.name, operands_of(op));
      if (!constants.empty()) line += fmt::format("  {{{}}}", constants);
      line += fmt::format("  {} flops, {} moved", short_count(op.flops), format_bytes(op.bytes_moved));
      if (op.workspace_bytes > 0) line += fmt::format(", {} scratch", format_bytes(op.workspace_bytes));
      if (op.recomputed) line += ", recomputed";
      if (!trace_.modules[op.module].empty()) line += "  in " + trace_.modules[op.module];
      // One line for each operator if another program reads the output; on a terminal, lines are folded to its width.
      text_ +=
          fold(without_controls(line), options_.screen.lines == kAnyWidth ? kAnyWidth : options_.screen.columns, 8);
    }
    say_rest(count, "operators");
  }

  bool in_range(size_t buffer) const {
    if (!options_.segment) return true;
    return lifetimes_[buffer].birth < end_ && lifetimes_[buffer].death > begin_;
  }

  void buffers() {
    std::vector<Column> columns = {{"buffer"}, {"bytes", Align::right}, {"role"}, {"lives", Align::right}};
    if (!offsets_.empty()) columns.push_back({"offset", Align::right});
    columns.push_back({.name = "label", .fit = Fit::middle, .min_width = 16});
    Table table(columns, "Buffers");
    int64_t count = 0;
    for (size_t b = 0; b < trace_.buffers.size(); ++b) {
      if (!in_range(b)) continue;
      if (++count; count > shown(count)) continue;
      const Buffer& buffer = trace_.buffers[b];
      std::vector<std::string> cells = {fmt::format("b{}", b), std::to_string(buffer.bytes),
                                        std::string(name_of(buffer.role)) + (buffer.persistent ? ", kept" : "") +
                                            (buffer.on_device() ? "" : ", " + std::string(name_of(buffer.memory))),
                                        fmt::format("{}..{}", lifetimes_[b].birth, lifetimes_[b].death)};
      if (!offsets_.empty()) cells.push_back(offsets_[b] < 0 ? "-" : std::to_string(offsets_[b]));
      cells.push_back(buffer.label);
      table.add_row(std::move(cells));
    }
    text_ += "\n" + table.to_string(options_.screen);
    say_rest(count, "buffers");
  }

  void totals_by_operator() {
    struct Total {
      int64_t calls = 0;
      double flops = 0;
      int64_t moved = 0;
    };
    std::map<std::string, Total> by_name;
    for (int32_t i = begin_; i < end_; ++i) {
      Total& total = by_name[trace_.ops[i].name];
      ++total.calls;
      total.flops += trace_.ops[i].flops;
      total.moved += trace_.ops[i].bytes_moved;
    }
    std::vector<std::pair<std::string, Total>> sorted(by_name.begin(), by_name.end());
    std::ranges::stable_sort(sorted, [](const auto& a, const auto& b) {
      return std::pair(a.second.flops, a.second.moved) > std::pair(b.second.flops, b.second.moved);
    });
    Table table({{.name = "operator", .fit = Fit::middle, .min_width = 20},
                 {"calls", Align::right},
                 {"flops", Align::right},
                 {"moved", Align::right}},
                "Totals by operator");
    for (const auto& [name, total] : sorted)
      table.add_row({name, std::to_string(total.calls), short_count(total.flops), format_bytes(total.moved)});
    text_ += "\n" + table.to_string(options_.screen);
  }

  void title(const char* text) {
    const bool bold = options_.screen.bold;
    add("\n{}{}{}\n\n", bold ? "\x1b[1m" : "", text, bold ? "\x1b[0m" : "");
  }

  template <typename... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Values>(values)...);
  }

  const Trace& trace_;
  const std::vector<int64_t>& offsets_;
  const ListingOptions& options_;
  std::vector<Lifetime> lifetimes_;
  int32_t begin_ = 0, end_ = 0;  ///< range of the listed operators
  std::string text_;
};

}  // namespace

std::string listing_of(const Trace& trace, const std::vector<int64_t>& offsets, const ListingOptions& options) {
  return Listing(trace, offsets, options).text();
}

}  // namespace plimsoll::cli
