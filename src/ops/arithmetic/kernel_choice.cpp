#include "ops/arithmetic/kernel_choice.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/atomic_file.h"
#include "base/cache_folder.h"
#include "base/stable_timing.h"
#include "ops/processor.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

constexpr double kSecondsOfContest = 0.5;
constexpr int kMinTries = 3;

struct Choices {
  std::mutex mutex;
  std::map<std::string, bool, std::less<>> second;  // by site
  std::map<std::string, ChosenKernel, std::less<>> chosen;
  std::map<std::string, std::string> kept;
  std::optional<std::map<std::string, std::string>> named;  // PLIMSOLL_KERNELS
};
Choices& choices() {
  static Choices all;
  return all;
}

double clock_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Returns the shortest seconds of the first and of the second kernel, which take turns.
std::array<double, 2> contest(const KernelPair& pair) {
  const at::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  // One thread: no thread waits for another one that the machine's other work delays.
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto now = [&] { return pair.now ? pair.now() : clock_seconds(); };
  const double start = now();
  std::array<StableTiming, 2> tries;
  for (const bool second : {false, true}) pair.run(second);  // creates kernels and maps pages
  do {
    for (const bool second : {false, true}) {
      const double begin = now();
      pair.run(second);
      tries[second].add(std::max(now() - begin, 1e-9));
    }
  } while (now() - start < kSecondsOfContest &&
           (tries[0].count() < kMinTries || !tries[0].converged() || !tries[1].converged()));
  at::set_num_threads(threads);
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

struct Decision {
  bool second;
  std::string reason;
};

std::string reason_of(const KernelPair& pair, bool second, const std::array<double, 2>& seconds) {
  return fmt::format("{:.2f} ms; {} {:.2f} ms", 1e3 * seconds[second], second ? pair.first : pair.second,
                     1e3 * seconds[!second]);
}

std::optional<Decision> stored(const KernelPair& pair, const std::filesystem::path& file) {
  const nlohmann::json sites = stored_sites(file), site = sites.value(std::string(pair.site), nlohmann::json());
  if (!site.is_object() || !site.contains("kernel") || !site["kernel"].is_string()) return std::nullopt;
  const auto kernel = site["kernel"].get<std::string>();
  if (kernel != pair.first && kernel != pair.second) return std::nullopt;
  const bool second = kernel == pair.second;
  const nlohmann::json seconds = site.value("seconds", nlohmann::json());
  if (!seconds.is_array() || seconds.size() != 2 || !seconds[0].is_number() || !seconds[1].is_number())
    return std::nullopt;
  return Decision{second, reason_of(pair, second, {seconds[0].get<double>(), seconds[1].get<double>()})};
}

Decision measured_or_stored(const KernelPair& pair) {
  const std::filesystem::path file = kernels_file();
  if (!file.empty())
    if (auto known = stored(pair, file)) return *known;
  const std::array<double, 2> seconds = contest(pair);
  if (file.empty()) {
    const bool second = seconds[1] < kClearlyFaster * seconds[0];
    return {second, reason_of(pair, second, seconds)};
  }
  // Another process, for example another rank, may have measured at the same time: the first answer holds for both.
  if (auto known = stored(pair, file)) return *known;
  const bool second = seconds[1] < kClearlyFaster * seconds[0];
  nlohmann::json sites = stored_sites(file);
  sites[std::string(pair.site)] = {{"kernel", second ? pair.second : pair.first}, {"seconds", seconds}};
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  try {
    write_file_atomically(file, nlohmann::json{{"machine", machine_name()}, {"sites", sites}}.dump(1) + "\n");
  } catch (const UserError&) {  // a full disk, or a folder that is not ours: the next process measures again
  }
  return {second, reason_of(pair, second, seconds)};
}

std::map<std::string, std::string> known_kernels_of(const std::string& text) {
  std::map<std::string, std::string> named = kernels_of(text);
  for (const auto& [site, kernel] : named)
    if (std::ranges::find(kKernelSites, site) == kKernelSites.end())
      throw UserError(fmt::format("PLIMSOLL_KERNELS names {}, which has no choice of kernels; these have one: {}", site,
                                  fmt::join(kKernelSites, ", ")));
  return named;
}

Decision decided(Choices& all, const KernelPair& pair) {
  const std::string site(pair.site);
  if (!all.named) {
    const char* const text = std::getenv("PLIMSOLL_KERNELS");
    all.named = text ? known_kernels_of(text) : std::map<std::string, std::string>();
  }
  if (const auto named = all.named->find(site); named != all.named->end()) {
    if (named->second != pair.first && named->second != pair.second)
      throw UserError(fmt::format("PLIMSOLL_KERNELS says {}={}; {} may be {} or {}", site, named->second, site,
                                  pair.first, pair.second));
    return {named->second == pair.second, "PLIMSOLL_KERNELS"};
  }
  if (const auto kept = all.kept.find(site);
      kept != all.kept.end() && (kept->second == pair.first || kept->second == pair.second))
    return {kept->second == pair.second, "as the run began"};
  return measured_or_stored(pair);
}

}  // namespace

bool uses_second_kernel(const KernelPair& pair) {
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  if (const auto known = all.second.find(pair.site); known != all.second.end()) return known->second;
  const auto [second, reason] = decided(all, pair);
  const std::string site(pair.site);
  all.second[site] = second;
  all.chosen[site] = {site, std::string(second ? pair.second : pair.first), reason};
  return second;
}

std::vector<ChosenKernel> chosen_kernels() {
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  std::vector<ChosenKernel> result;
  for (const auto& [site, chosen] : all.chosen) result.push_back(chosen);
  return result;
}

std::string kernels_text() {
  std::string text;
  for (const ChosenKernel& each : chosen_kernels())
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", each.site, each.kernel);
  return text;
}

void keep_kernels(const std::string& text) {
  std::map<std::string, std::string> kept;
  try {
    kept = kernels_of(text);
  } catch (const UserError&) {  // another version's text
    return;
  }
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
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

KernelScope::KernelScope(std::string_view site, bool second) : site_(site) {
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  const auto known = all.second.find(site_);
  before_ = known == all.second.end() ? -1 : known->second;
  all.second[site_] = second;
}
KernelScope::~KernelScope() {
  Choices& all = choices();
  const std::lock_guard lock(all.mutex);
  if (before_ < 0)
    all.second.erase(site_);
  else
    all.second[site_] = before_ == 1;
}

}  // namespace plimsoll::ops
