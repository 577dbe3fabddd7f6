#include "collectives/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/file_error.h"
#include "collectives/rank_fault.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using Clock = std::chrono::steady_clock;

std::string system_text(int error) {
  return std::generic_category().message(error);
}

/// Opens a socket that listens on `port` of every address of this host. c10d would also print the errors.
int listening_socket(const Rendezvous& rendezvous) {
  const int both = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int socket = both >= 0 ? both : ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) throw_failure(fmt::format("cannot open a socket for the store: {}", system_text(errno)));
  const int on = 1, off = 0;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  int result = -1;
  if (both >= 0) {
    ::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(static_cast<uint16_t>(rendezvous.port));
    result = ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(rendezvous.port));
    result = ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }
  if (result == 0) result = ::listen(socket, SOMAXCONN);
  if (result == 0) return socket;
  const int error = errno;
  ::close(socket);
  if (error == EADDRINUSE) {
    throw_failure(fmt::format("port {} on {} is taken: choose another with MASTER_PORT or --rdzv-endpoint",
                              rendezvous.port, host_name()));
  }
  throw_failure(fmt::format("cannot listen on port {} of {}: {}; choose another with MASTER_PORT or --rdzv-endpoint",
                            rendezvous.port, host_name(), system_text(error)));
}

/// Returns true if a program listens at the address; otherwise sets `problem` to the reason.
bool answers(const Rendezvous& rendezvous, std::string& problem) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int result = ::getaddrinfo(rendezvous.address.c_str(), std::to_string(rendezvous.port).c_str(), &hints, &found);
  if (result != 0) {
    problem = ::gai_strerror(result);
    return false;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  for (const addrinfo* address = found; address; address = address->ai_next) {
    const int socket = ::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) continue;
    const timeval limit{2, 0};
    ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));  // also the limit of connect()
    const bool connected = ::connect(socket, address->ai_addr, address->ai_addrlen) == 0;
    problem = connected ? "" : system_text(errno == EINPROGRESS ? ETIMEDOUT : errno);
    ::close(socket);
    if (connected) return true;
  }
  return false;
}

StorePointer tcp_store(const Rendezvous& rendezvous, StoreOpening& opening) {
  if (rendezvous.port < 1 || rendezvous.port > 65535)
    throw_failure(fmt::format("the port of the store is {}; allowed: 1 to 65535; set MASTER_PORT", rendezvous.port));
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(rendezvous.port);
  options.isServer = rendezvous.serves;
  options.waitWorkers = false;
  options.numWorkers = static_cast<size_t>(rendezvous.size);
  options.timeout = rendezvous.patience;
  if (rendezvous.serves) {
    options.masterListenFd = listening_socket(rendezvous);
  } else {
    const auto end = Clock::now() + rendezvous.patience;
    for (std::string problem; !answers(rendezvous, problem);) {
      if (opening.require_go_on) opening.require_go_on();
      if (Clock::now() >= end) {
        throw_failure(
            fmt::format("{} does not answer after {}: {}; check MASTER_ADDR and MASTER_PORT, and that rank 0 runs",
                        store_name(rendezvous), seconds_text(rendezvous.patience), problem));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  if (rendezvous.serves) return c10::make_intrusive<c10d::TCPStore>(rendezvous.address, options);
  opening.connecting = true;
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(rendezvous.address, options);
    opening.connecting = false;
    return store;
  } catch (const std::exception& error) {
    opening.connecting = false;
    throw_failure(fmt::format("{} ({})", no_rank_0_text(rendezvous), first_line(error.what())));
  }
}

StorePointer file_store(const Rendezvous& rendezvous) {
  // Checked here, because c10d retries for five minutes to open a file that it cannot open.
  const int file = ::open(rendezvous.file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) throw_file_error("write", rendezvous.file, errno);
  ::close(file);
  auto store = c10::make_intrusive<c10d::FileStore>(rendezvous.file.string(), rendezvous.size);
  store->setTimeout(rendezvous.patience);
  return store;
}

}  // namespace

StorePointer open_store(const Rendezvous& rendezvous) {
  StoreOpening opening;
  return open_store(rendezvous, opening);
}

StorePointer open_store(const Rendezvous& rendezvous, StoreOpening& opening) {
  try {
    const StorePointer store = rendezvous.address.empty() ? file_store(rendezvous) : tcp_store(rendezvous, opening);
    auto prefixed = c10::make_intrusive<c10d::PrefixStore>("plimsoll/" + rendezvous.run_id, store);
    prefixed->setTimeout(rendezvous.patience);
    return prefixed;
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& error) {
    throw_failure(fmt::format("{} cannot be used: {}", store_name(rendezvous), first_line(error.what())));
  }
}

std::string no_rank_0_text(const Rendezvous& rendezvous) {
  return fmt::format(
      "{}:{} does not answer as rank 0 of a Plimsoll run within {}: another program seems to listen there; choose a "
      "free "
      "port with MASTER_PORT or --rdzv-endpoint and start all ranks again",
      rendezvous.address, rendezvous.port, seconds_text(rendezvous.patience));
}

std::string store_name(const Rendezvous& rendezvous) {
  if (rendezvous.address.empty()) return fmt::format("the store {}", rendezvous.file.string());
  return fmt::format("the store at {}:{}", rendezvous.address, rendezvous.port);
}

void set_text(c10d::Store& store, const std::string& key, std::string_view text) {
  store.set(key, std::vector<uint8_t>(text.begin(), text.end()));
}

std::string get_text(c10d::Store& store, const std::string& key) {
  const std::vector<uint8_t> value = store.get(key);
  return {value.begin(), value.end()};
}

std::string first_line(std::string_view message) {
  return std::string(cut_text(message.substr(0, message.find('\n')), 300));
}

std::string address_towards(const std::string& host, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  for (const addrinfo* address = found; address; address = address->ai_next) {
    const int socket = ::socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket < 0) continue;
    sockaddr_storage own{};
    socklen_t size = sizeof(own);
    // For a datagram socket, connect() only chooses the route.
    const bool known = ::connect(socket, address->ai_addr, address->ai_addrlen) == 0 &&
                       ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) == 0;
    ::close(socket);
    std::array<char, 128> text{};
    if (known && ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text.data(), text.size(), nullptr, 0,
                               NI_NUMERICHOST) == 0)
      return text.data();
  }
  return {};
}

}  // namespace plimsoll
