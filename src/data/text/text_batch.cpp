#include "data/text/text_batch.h"

#include "plimsoll/error.h"

namespace plimsoll {

Batch make_text_batch(const TextDataset& data, const WindowOrder& order, Split split, int64_t first_sample,
                      int64_t samples) {
  check(samples >= 1, "a batch has at least one sample");
  check(order.count() == data.windows(split), "the order is of another split");
  const int64_t length = data.sequence_length();
  const auto field = [&](const char* name) {
    const auto bytes = static_cast<std::size_t>(samples * length) * sizeof(int64_t);
    return BatchField{name, DType::int64, {samples, length}, std::vector<std::byte>(bytes)};
  };
  Batch batch{first_sample, samples, {}};
  batch.fields.push_back(field("tokens"));
  batch.fields.push_back(field("targets"));
  // operator new aligns the bytes for any type: they may be written as int64.
  auto* tokens = reinterpret_cast<int64_t*>(batch.fields[0].bytes.data());
  auto* targets = reinterpret_cast<int64_t*>(batch.fields[1].bytes.data());
  for (int64_t i = 0; i < samples; ++i)
    data.fill(split, order.index(first_sample + i), tokens + i * length, targets + i * length);
  return batch;
}

}  // namespace plimsoll
