#include "ops/placed_results.h"

#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <utility>

#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

// A dispatch key for wrappers of tensors, which libtorch leaves unused.
constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericWrapper;

thread_local std::vector<at::Tensor>* places_here = nullptr;

at::Tensor empty_like(const at::Tensor& self, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                      std::optional<at::Device> device, std::optional<bool> pin_memory,
                      std::optional<at::MemoryFormat> format) {
  if (places_here) {
    const auto found = std::ranges::find_if(*places_here, [&](const at::Tensor& place) {
      return place.sizes() == self.sizes() && place.scalar_type() == dtype.value_or(self.scalar_type()) &&
             place.device() == device.value_or(self.device());
    });
    if (found != places_here->end()) {
      at::Tensor place = std::move(*found);
      places_here->erase(found);
      return place;
    }
  }
  const c10::impl::ExcludeDispatchKeyGuard below(kKey);
  return at::empty_like(self, dtype, layout, device, pin_memory, format);
}

}  // namespace

struct PlacedResults::Scope {
  std::vector<at::Tensor> places;
  c10::impl::IncludeDispatchKeyGuard include{kKey};
};

PlacedResults::PlacedResults(std::vector<at::Tensor> places) : scope_(new Scope{std::move(places)}) {
  check(places_here == nullptr, "scopes of placed results are nested");
  places_here = &scope_->places;
}

PlacedResults::~PlacedResults() {
  places_here = nullptr;
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericWrapper, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, TESTING_ONLY_GenericWrapper, m) {
  m.impl("empty_like", empty_like);
}

}  // namespace plimsoll::ops
