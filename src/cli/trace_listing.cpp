#include "cli/trace_listing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "base/names.h"
#include "base/text.h"
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

namespace {

Json view_json(const View& view) {
  if (view.buffer == kNoBuffer) return nullptr;
  return {{"buffer", view.buffer},
          {"dtype", name_of(view.dtype)},
          {"offset", view.offset},
          {"sizes", view.sizes},
          {"strides", view.strides}};
}

Json views_json(const std::vector<View>& views) {
  Json list = Json::array();
  for (const View& view : views) list.push_back(view_json(view));
  return list;
}

Json named_json(const std::vector<NamedView>& views) {
  Json list = Json::array();
  for (const NamedView& each : views) list.push_back({{"name", each.name}, {"view", view_json(each.view)}});
  return list;
}

const char* kind_name(Argument::Kind kind) {
  switch (kind) {
    case Argument::Kind::constant:
      return "constant";
    case Argument::Kind::tensor:
      return "tensor";
    case Argument::Kind::tensor_list:
      return "tensor_list";
  }
  return "?";
}

Json op_json(const Trace& trace, size_t index) {
  const Op& op = trace.ops[index];
  Json arguments = Json::array();
  for (const Argument& argument : op.arguments) {
    Json json = {{"kind", kind_name(argument.kind)}};
    if (argument.kind != Argument::Kind::constant) {
      json["written"] = argument.written;
      json["views"] = views_json(argument.views);
    }
    arguments.push_back(std::move(json));
  }
  return {{"index", index},
          {"name", op.name},
          {"phase", name_of(op.phase)},
          {"module", trace.modules[op.module]},
          {"arguments", std::move(arguments)},
          {"results", views_json(op.results)},
          {"constants", describe_constants(op)},
          {"flops", op.flops},
          {"bytes_moved", op.bytes_moved},
          {"staged_bytes", op.staged_bytes},
          {"workspace_bytes", op.workspace_bytes},
          {"random_id", op.random_id < 0 ? Json(nullptr) : Json(op.random_id)},
          {"recomputed", op.recomputed},
          {"on_host", op.on_host}};
}

}  // namespace

Json trace_json(const Trace& trace, const std::vector<int64_t>& offsets) {
  const std::vector<Lifetime> lifetimes = lifetimes_of(trace);
  Json buffers = Json::array();
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    const Buffer& buffer = trace.buffers[b];
    Json json = {{"id", b},
                 {"bytes", buffer.bytes},
                 {"role", name_of(buffer.role)},
                 {"label", buffer.label},
                 {"persistent", buffer.persistent},
                 {"memory", name_of(buffer.memory)},
                 {"output", buffer.output},
                 {"birth", lifetimes[b].birth},
                 {"death", lifetimes[b].death}};
    if (!offsets.empty()) json["offset"] = offsets[b] < 0 ? Json(nullptr) : Json(offsets[b]);
    buffers.push_back(std::move(json));
  }
  Json ops = Json::array();
  for (size_t i = 0; i < trace.ops.size(); ++i) ops.push_back(op_json(trace, i));
  Json segments = Json::array();
  for (const Segment& segment : trace.segments)
    segments.push_back({{"name", name_of(segment.kind)}, {"begin", segment.begin}, {"end", segment.end}});
  return {{"buffers", std::move(buffers)},        {"ops", std::move(ops)},
          {"segments", std::move(segments)},      {"inputs", named_json(trace.inputs)},
          {"outputs", named_json(trace.outputs)}, {"state", named_json(trace.state)}};
}

namespace {

std::string ratio_of(double seconds, double floor) {
  return floor > 0 ? fmt::format("{:.1f}", seconds / floor) : "-";
}

std::string share_of(double seconds, double all) {
  return all > 0 ? fmt::format("{:.1f} %", 100 * seconds / all) : "-";
}

constexpr size_t kMaxShown = 20, kMinShown = 5;
constexpr size_t kMaxOperandsWidth = 96;  ///< an attention's operands fill several lines; the JSON has all of them

// Returns the default number of rows: as many as a terminal shows at a time, in addition to `others` lines and its
// prompt.
size_t shown_on(const Screen& screen, size_t others) {
  if (screen.lines < others + 1 + kMinShown) return kMinShown;
  return std::min(kMaxShown, screen.lines - others - 1);
}

bool on_this_machine(const CostModel& cost) {
  return cost.source.starts_with("measured") || cost.source.starts_with("typical");
}

std::string notes_of(const HotOps& hot, const CostModel& cost) {
  std::string text = fmt::format("Device: {}. ", without_controls(cost.device));
  text += on_this_machine(cost)
              ? fmt::format("{} of the time comes from ops that were timed one by one; ",
                            share_of(hot.timed_seconds, hot.seconds))
              : std::string("No op was timed; all times are predicted from the rates in the catalogue; ");
  text += "the floor is the larger of arithmetic time and memory time at the rates of the op's kind";
  text += "; the ratio is time divided by floor.";
  if (on_this_machine(cost))
    text += " A ratio below 1 means faster than the measured rate, for example with operands in a cache.";
  return text;
}

}  // namespace

Json hot_json(const HotOps& hot, const CostModel& cost) {
  Json ops = Json::array();
  for (const HotOp& op : hot.ops)
    ops.push_back({{"name", op.name},
                   {"operands", op.operands},
                   {"modules", op.modules},
                   {"runs", op.runs},
                   {"seconds", op.seconds},
                   {"share", hot.seconds > 0 ? op.seconds / hot.seconds : 0},
                   {"floor_seconds", op.floor_seconds},
                   {"ratio", op.floor_seconds > 0 ? Json(op.seconds / op.floor_seconds) : Json(nullptr)},
                   {"timed", op.timed}});
  return {{"device", cost.device},
          {"times", cost.source},
          {"step_seconds", hot.seconds + hot.wait_seconds},
          {"timed_seconds", hot.timed_seconds},
          {"floor_seconds", hot.floor_seconds},
          {"wait_seconds", hot.wait_seconds},
          {"ops", std::move(ops)}};
}

std::string hot_text(const HotOps& hot, const CostModel& cost, const std::string& whole, int64_t count,
                     const Screen& screen) {
  const bool scrolls = screen.lines != kAnyWidth;  // each line under a row hides another row
  Table table({{.name = "operator", .fit = Fit::middle, .min_width = 24},
               {"runs", Align::right},
               {"time", Align::right},
               {"share", Align::right},
               {.name = "floor", .align = Align::right, .drop = 2},
               {"ratio", Align::right},
               {.drop = 1},
               {.name = "module", .fit = Fit::middle, .min_width = 18},
               {.name = "operands", .fit = scrolls ? Fit::end : Fit::below, .min_width = 24, .drop = 3}},
              fmt::format("Ops of {} by time", whole));
  const std::string notes = fold(notes_of(hot, cost), screen.columns);
  const size_t others = 9 + static_cast<size_t>(std::ranges::count(notes, '\n'));  // titles, rules, the sum, the rest
  const auto shown =
      std::min<int64_t>(count > 0 ? count : static_cast<int64_t>(shown_on(screen, others)), std::ssize(hot.ops));
  for (int64_t i = 0; i < shown; ++i) {
    const HotOp& op = hot.ops[i];
    table.add_row({op.name, std::to_string(op.runs), short_seconds(op.seconds), share_of(op.seconds, hot.seconds),
                   short_seconds(op.floor_seconds), ratio_of(op.seconds, op.floor_seconds), op.timed ? "" : "predicted",
                   op.modules, shorten_end(op.operands, kMaxOperandsWidth)});
  }
  table.add_rule();
  int64_t runs = 0;
  for (const HotOp& op : hot.ops) runs += op.runs;
  table.add_row({"all ops", std::to_string(runs), short_seconds(hot.seconds), share_of(hot.seconds, hot.seconds),
                 short_seconds(hot.floor_seconds), ratio_of(hot.seconds, hot.floor_seconds)});
  std::string text = table.to_string(screen);
  if (const int64_t rest = std::ssize(hot.ops) - shown; rest > 0) text += fmt::format("… and {} more kinds\n", rest);
  if (hot.wait_seconds > 0)
    text += fmt::format("additional waits for copies: {} (predicted)\n", short_seconds(hot.wait_seconds));
  return text + "\n" + notes;
}

}  // namespace plimsoll::cli
