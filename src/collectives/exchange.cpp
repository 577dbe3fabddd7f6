#include "collectives/exchange.h"

#include <utility>

namespace plimsoll {
namespace {

thread_local Exchange* current = nullptr;
thread_local std::string current_place;

}  // namespace

Exchange* current_exchange() {
  return current;
}

void note_operator(std::string_view name) {
  if (current) current->note(current_place + ", " + std::string(name));
}

ExchangeScope::ExchangeScope(Exchange* exchange, std::string place)
    : before_(std::exchange(current, exchange)), place_before_(std::exchange(current_place, std::move(place))) {}

ExchangeScope::~ExchangeScope() {
  current = before_;
  current_place = std::move(place_before_);
}

}  // namespace plimsoll
