#include "collectives/exchange.h"

namespace plimsoll {
namespace {

thread_local Exchange* current = nullptr;

}  // namespace

Exchange* current_exchange() {
  return current;
}

ExchangeScope::ExchangeScope(Exchange* exchange) : before_(current) {
  current = exchange;
}

ExchangeScope::~ExchangeScope() {
  current = before_;
}

}  // namespace plimsoll
