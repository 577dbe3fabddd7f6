#include "collectives/exchange.h"

#include <utility>

namespace plimsoll {
namespace {

thread_local Exchange* current = nullptr;
thread_local std::string place_now;
thread_local double seconds = 0;

}  // namespace

Exchange* current_exchange() {
  return current;
}

double exchange_seconds() {
  return seconds;
}

ExchangeTimer::ExchangeTimer() : begin_(std::chrono::steady_clock::now()) {}

ExchangeTimer::~ExchangeTimer() {
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

void note_operator(std::string_view name) {
  if (current) current->note(place_now + ", " + std::string(name));
}

const std::string& current_place() {
  return place_now;
}

ExchangeScope::ExchangeScope(Exchange* exchange, std::string place)
    : before_(std::exchange(current, exchange)), place_before_(std::exchange(place_now, std::move(place))) {}

ExchangeScope::~ExchangeScope() {
  current = before_;
  place_now = std::move(place_before_);
}

}  // namespace plimsoll
