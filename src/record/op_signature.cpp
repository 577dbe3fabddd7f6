#include "record/op_signature.h"

#include <mutex>
#include <unordered_map>

#include "record/shape_rules.h"

namespace plimsoll {
namespace {

OpSignature make_signature(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  OpSignature signature{op, toString(op.operator_name()), {}, {}, {}, false, false, nullptr, nullptr};
  for (const c10::Argument& argument : schema.arguments()) {
    const c10::AliasInfo* alias = argument.alias_info();
    signature.written.push_back(alias != nullptr && alias->isWrite());
  }
  // Running statistics are updated, although the schema does not say it.
  if (schema.name() == "aten::native_batch_norm" || schema.name() == "aten::cudnn_batch_norm" ||
      schema.name() == "aten::miopen_batch_norm")
    for (size_t i : {size_t{3}, size_t{4}}) signature.written[i] = true;
  bool any_view = false, all_views = !schema.returns().empty();
  for (const c10::Argument& result : schema.returns()) {
    const c10::AliasInfo* alias = result.alias_info();
    int aliased = -1;
    if (alias != nullptr) {
      for (size_t i = 0; i < schema.arguments().size() && aliased < 0; ++i) {
        const c10::AliasInfo* other = schema.arguments()[i].alias_info();
        if (other != nullptr && other->beforeSets() == alias->beforeSets()) aliased = static_cast<int>(i);
      }
    }
    const bool view = aliased >= 0 && !alias->isWrite();
    signature.result_argument.push_back(aliased);
    signature.result_is_view.push_back(view);
    any_view |= view;
    all_views &= view;
  }
  signature.only_views = any_view && all_views;
  signature.random = op.hasTag(at::Tag::nondeterministic_seeded);
  signature.rule = find_shape_rule(signature.name);
  signature.refusal = find_refusal(schema.name());
  return signature;
}

}  // namespace

const OpSignature& signature_of(const c10::OperatorHandle& op) {
  static std::mutex mutex;
  static std::unordered_map<const c10::FunctionSchema*, std::unique_ptr<OpSignature>> cache;
  std::lock_guard lock(mutex);
  auto& entry = cache[&op.schema()];
  if (!entry) entry = std::make_unique<OpSignature>(make_signature(op));
  return *entry;
}

}  // namespace plimsoll
