#include "ops/kernel_choice.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>

#include "base/atomic_file.h"
#include "base/measurement.h"
#include "ops/cpu_capability.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

constexpr double kSecondsOfContest = 0.5;
constexpr int kMinTries = 3;

using Kernels = std::map<std::string, std::string>;  // a kernel by site

struct Choices {
  std::mutex mutex;
  std::map<std::string, ChosenKernel, std::less<>> chosen;
  Kernels kept;
  std::optional<Kernels> named;  // PLIMSOLL_KERNELS
};
Choices& choices() {
  static Choices all;
  return all;
}

/// One thread: no thread waits for another one that the machine's other work delays.
struct OneThread {
  int before = at::get_num_threads();
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before); }
};

/// Returns the shortest seconds of the first and of the second kernel, which take turns.
std::array<double, 2> contest(const KernelPair& pair) {
  const at::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const OneThread one_thread;
  MeasuringMachine& machine = measuring_machine();
  const double start = machine.now();
  std::array<StableTiming, 2> tries;
  for (const bool second : {false, true}) pair.run(second);  // creates kernels and maps pages
  do {
    for (const bool second : {false, true}) {
      const MeasuredWork work{fmt::format("{} {}", pair.site, second ? pair.second : pair.first)};
      tries[second].add(machine.time(work, [&] { pair.run(second); }));
    }
  } while (machine.now() - start < kSecondsOfContest &&
           (tries[0].count() < kMinTries || !tries[0].converged() || !tries[1].converged()));
  return {tries[0].shortest(), tries[1].shortest()};
}

std::filesystem::path kernels_file() {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return folder;
  const std::string masks = instruction_masks_in_a_name();
  return folder / (masks.empty() ? "kernels.json" : fmt::format("kernels-{}.json", masks));
}

/// Returns the file's sites; empty if it is missing, damaged, or another machine's.
nlohmann::json stored_sites(const std::filesystem::path& file) {
  std::ifstream stream(file);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("machine", nlohmann::json()) != machine_name()) return nlohmann::json::object();
  const nlohmann::json sites = json.value("sites", nlohmann::json());
  return sites.is_object() ? sites : nlohmann::json::object();
}

/// A lock that other processes wait for while it lives. Where the file system has no locks there is none, and two
/// processes may measure at the same time.
class ProcessLock {
 public:
  explicit ProcessLock(const std::filesystem::path& file)
      : descriptor_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (descriptor_ >= 0) ::flock(descriptor_, LOCK_EX);
  }
  ~ProcessLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  ProcessLock(const ProcessLock&) = delete;
  ProcessLock& operator=(const ProcessLock&) = delete;

 private:
  int descriptor_;
};

ChosenKernel by_times(const KernelPair& pair, bool second, const std::array<double, 2>& seconds) {
  return {std::string(pair.site), std::string(second ? pair.second : pair.first),
          fmt::format("{:.2f} ms; {} {:.2f} ms", 1e3 * seconds[second], second ? pair.first : pair.second,
                      1e3 * seconds[!second])};
}

std::optional<ChosenKernel> stored(const KernelPair& pair, const std::filesystem::path& file) {
  const nlohmann::json sites = stored_sites(file), site = sites.value(std::string(pair.site), nlohmann::json());
  if (!site.is_object()) return std::nullopt;
  const nlohmann::json kernel = site.value("kernel", nlohmann::json()), times = site.value("seconds", nlohmann::json());
  if ((kernel != pair.first && kernel != pair.second) || !times.is_object()) return std::nullopt;
  std::array<double, 2> seconds{};
  for (const bool second : {false, true}) {
    const nlohmann::json time = times.value(std::string(second ? pair.second : pair.first), nlohmann::json());
    if (!time.is_number()) return std::nullopt;
    seconds[second] = time.get<double>();
  }
  return by_times(pair, kernel == pair.second, seconds);
}

ChosenKernel measured(const KernelPair& pair, std::array<double, 2>& seconds) {
  seconds = contest(pair);
  return by_times(pair, seconds[1] < kClearlyFaster * seconds[0], seconds);
}

ChosenKernel stored_or_measured(const KernelPair& pair) {
  std::array<double, 2> seconds{};
  const std::filesystem::path file = kernels_file();
  if (file.empty()) return measured(pair, seconds);
  if (auto known = stored(pair, file)) return *known;
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  const ProcessLock lock(file.string() + ".lock");
  if (auto known = stored(pair, file)) return *known;  // another process measured it meanwhile
  ChosenKernel chosen = measured(pair, seconds);
  nlohmann::json sites = stored_sites(file);
  sites[chosen.site] = {{"kernel", chosen.kernel}, {"seconds", {{pair.first, seconds[0]}, {pair.second, seconds[1]}}}};
  try {
    write_file_atomically(file, nlohmann::json{{"machine", machine_name()}, {"sites", sites}}.dump(1) + "\n");
  } catch (const UserError&) {  // a full disk, or a folder that is not ours: the next process measures again
  }
  return chosen;
}

const KernelSite* known_site(std::string_view site) {
  const auto* const found = std::ranges::find(kKernelSites, site, &KernelSite::site);
  return found == kKernelSites.end() ? nullptr : found;
}

Kernels known_kernels_of(const std::string& text) {
  Kernels named = kernels_of(text);
  for (const auto& [name, kernel] : named) {
    const KernelSite* const site = known_site(name);
    if (!site) {
      std::string all;
      for (const KernelSite& each : kKernelSites) all += fmt::format("{}{}", all.empty() ? "" : ", ", each.site);
      throw UserError(
          fmt::format("PLIMSOLL_KERNELS names {}, which has no choice of kernels; these have one: {}", name, all));
    }
    if (kernel != site->kernel && kernel != site->other)
      throw UserError(fmt::format("PLIMSOLL_KERNELS says {}={}; {} may be {} or {}", name, kernel, name, site->kernel,
                                  site->other));
  }
  return named;
}

const Kernels& named_kernels(Choices& all) {
  if (!all.named) {
    const char* const text = std::getenv("PLIMSOLL_KERNELS");
    all.named = text ? known_kernels_of(text) : Kernels();
  }
  return *all.named;
}

ChosenKernel decided(Choices& all, const KernelPair& pair) {
  const std::string site(pair.site);
  const Kernels& named = named_kernels(all);
  if (const auto found = named.find(site); found != named.end()) return {site, found->second, "PLIMSOLL_KERNELS"};
  if (const auto kept = all.kept.find(site);
      kept != all.kept.end() && (kept->second == pair.first || kept->second == pair.second))
    return {site, kept->second, "as the run began"};
  return stored_or_measured(pair);
}

}  // namespace

bool uses_second_kernel(const KernelPair& pair) {
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  auto found = all.chosen.find(pair.site);
  if (found == all.chosen.end()) found = all.chosen.emplace(pair.site, decided(all, pair)).first;
  return found->second.kernel == pair.second;
}

void require_known_kernels() {
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  named_kernels(all);
}

std::vector<ChosenKernel> chosen_kernels(std::string_view prefix) {
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  std::vector<ChosenKernel> result;
  for (const auto& [site, chosen] : all.chosen)
    if (site.starts_with(prefix)) result.push_back(chosen);
  return result;
}

std::string kernels_text(std::string_view prefix) {
  std::string text;
  for (const ChosenKernel& each : chosen_kernels(prefix))
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", each.site, each.kernel);
  return text;
}

void keep_kernels(const std::string& text) {
  Kernels kept;
  try {
    kept = kernels_of(text);
  } catch (const UserError&) {  // another version's text
    return;
  }
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  const Kernels& named = named_kernels(all);
  for (const auto& [site, kernel] : kept)
    if (!named.contains(site)) all.chosen.erase(site);  // decided again when it is needed
  all.kept = std::move(kept);
}

std::map<std::string, std::string> kernels_of(const std::string& text) {
  std::map<std::string, std::string> result;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == part.size())
      throw UserError(
          fmt::format("PLIMSOLL_KERNELS has the part '{}'; each part is op=kernel, as `plimsoll doctor` "
                      "shows them: loss_head.float32=blocks,attention.bfloat16=pairs",
                      part));
    result[part.substr(0, equals)] = part.substr(equals + 1);
    begin = end + 1;
  }
  return result;
}

KernelScope::KernelScope(std::string_view site, std::string_view kernel) : site_(site) {
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  if (const auto known = all.chosen.find(site_); known != all.chosen.end()) before_.push_back(known->second);
  all.chosen[site_] = {site_, std::string(kernel), "a test"};
}
KernelScope::~KernelScope() {
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  all.chosen.erase(site_);
  if (!before_.empty()) all.chosen[site_] = before_[0];
}

}  // namespace plimsoll::ops
