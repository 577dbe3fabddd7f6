#include "cli/trace/trace_json.h"

#include "plimsoll/trace.h"

namespace plimsoll::cli {
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

}  // namespace plimsoll::cli
