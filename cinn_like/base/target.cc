#include "cinn_like/base/target.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <variant>

#include "cinn_like/base/speeds.h"

namespace cinn_like {
namespace {

constexpr std::string_view kKinds[] = {"x86_64", "cuda"};

struct Numbers {
  int64_t cores, vector_bytes, l1_bytes, l2_bytes, bandwidth, shared_bytes, registers, warp_size;
};

// One row per CPU (named as LLVM does) or GPU arch: what is typical of it.
struct Row {
  std::string_view name;
  Numbers numbers;
};

constexpr int64_t kKi = 1024, kMi = 1024 * 1024;
constexpr Row kCpus[] = {
    {"x86-64", {8, 16, 32 * kKi, 256 * kKi, 25, 0, 16, 1}},
    {"x86-64-v2", {8, 16, 32 * kKi, 256 * kKi, 25, 0, 16, 1}},
    {"x86-64-v3", {8, 32, 32 * kKi, 512 * kKi, 40, 0, 16, 1}},
    {"x86-64-v4", {16, 64, 32 * kKi, 1 * kMi, 100, 0, 32, 1}},
    {"haswell", {8, 32, 32 * kKi, 256 * kKi, 50, 0, 16, 1}},
    {"broadwell", {8, 32, 32 * kKi, 256 * kKi, 60, 0, 16, 1}},
    {"skylake", {4, 32, 32 * kKi, 256 * kKi, 35, 0, 16, 1}},
    {"skylake-avx512", {24, 64, 32 * kKi, 1 * kMi, 110, 0, 32, 1}},
    {"cascadelake", {24, 64, 32 * kKi, 1 * kMi, 120, 0, 32, 1}},
    {"icelake-server", {32, 64, 48 * kKi, 1280 * kKi, 180, 0, 32, 1}},
    {"rocketlake", {8, 64, 48 * kKi, 512 * kKi, 50, 0, 32, 1}},
    {"alderlake", {12, 32, 48 * kKi, 1280 * kKi, 70, 0, 16, 1}},
    {"sapphirerapids", {48, 64, 48 * kKi, 2 * kMi, 280, 0, 32, 1}},
    {"emeraldrapids", {56, 64, 48 * kKi, 2 * kMi, 320, 0, 32, 1}},
    {"graniterapids", {96, 64, 48 * kKi, 2 * kMi, 550, 0, 32, 1}},
    {"znver1", {16, 32, 32 * kKi, 512 * kKi, 100, 0, 16, 1}},
    {"znver2", {32, 32, 32 * kKi, 512 * kKi, 150, 0, 16, 1}},
    {"znver3", {32, 32, 32 * kKi, 512 * kKi, 160, 0, 16, 1}},
    {"znver4", {64, 64, 32 * kKi, 1 * kMi, 400, 0, 32, 1}},
    {"znver5", {64, 64, 48 * kKi, 1 * kMi, 500, 0, 32, 1}},
};
constexpr Row kCudaArchs[] = {
    {"native", {108, 16, 128 * kKi, 40 * kMi, 1500, 99 * kKi, 65536, 32}},
    {"sm_75", {40, 16, 64 * kKi, 4 * kMi, 300, 64 * kKi, 65536, 32}},
    {"sm_80", {108, 16, 192 * kKi, 40 * kMi, 1555, 163 * kKi, 65536, 32}},
    {"sm_86", {84, 16, 128 * kKi, 6 * kMi, 700, 99 * kKi, 65536, 32}},
    {"sm_87", {16, 16, 192 * kKi, 4 * kMi, 200, 163 * kKi, 65536, 32}},
    {"sm_88", {16, 16, 192 * kKi, 4 * kMi, 200, 163 * kKi, 65536, 32}},
    {"sm_89", {128, 16, 128 * kKi, 72 * kMi, 900, 99 * kKi, 65536, 32}},
    {"sm_90", {132, 16, 256 * kKi, 50 * kMi, 3350, 227 * kKi, 65536, 32}},
    {"sm_90a", {132, 16, 256 * kKi, 50 * kMi, 3350, 227 * kKi, 65536, 32}},
    {"sm_100", {148, 16, 256 * kKi, 126 * kMi, 8000, 227 * kKi, 65536, 32}},
    {"sm_100a", {148, 16, 256 * kKi, 126 * kMi, 8000, 227 * kKi, 65536, 32}},
    {"sm_103", {148, 16, 256 * kKi, 126 * kMi, 8000, 227 * kKi, 65536, 32}},
    {"sm_103a", {148, 16, 256 * kKi, 126 * kMi, 8000, 227 * kKi, 65536, 32}},
    {"sm_110", {20, 16, 256 * kKi, 32 * kMi, 270, 227 * kKi, 65536, 32}},
    {"sm_110a", {20, 16, 256 * kKi, 32 * kMi, 270, 227 * kKi, 65536, 32}},
    {"sm_120", {170, 16, 128 * kKi, 96 * kMi, 1790, 99 * kKi, 65536, 32}},
    {"sm_120a", {170, 16, 128 * kKi, 96 * kMi, 1790, 99 * kKi, 65536, 32}},
    {"sm_121", {48, 16, 128 * kKi, 24 * kMi, 270, 99 * kKi, 65536, 32}},
    {"sm_121a", {48, 16, 128 * kKi, 24 * kMi, 270, 99 * kKi, 65536, 32}},
};
constexpr std::string_view kLibs[] = {"cublas"};

// This machine, as far as the C library and cpuid say.
const Numbers& HostNumbers() {
  static const Numbers numbers = [] {
    Numbers n = kCpus[0].numbers;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) n.cores = CPU_COUNT(&set);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) n.vector_bytes = 32;
    if (__builtin_cpu_supports("avx512f")) {
      n.vector_bytes = 64;
      n.registers = 32;
    }
#endif
    if (const long l1 = sysconf(_SC_LEVEL1_DCACHE_SIZE); l1 > 0) n.l1_bytes = l1;
    if (const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE); l2 > 0) n.l2_bytes = l2;
    return n;
  }();
  return numbers;
}

using Field = std::variant<int64_t Target::*, std::string Target::*, std::vector<std::string> Target::*>;
constexpr unsigned kX86 = 1u << 0, kCuda = 1u << 1, kAll = kX86 | kCuda;

struct Option {
  std::string_view name;
  unsigned kinds;  // bit per TargetKind
  Field field;
  int64_t min = 0, max = 0;  // of numbers
  bool is_power_of_2 = false;
};
constexpr int64_t kMostCores = 1 << 16, kMostBytes = int64_t{1} << 40;
const Option kOptions[] = {
    {"mcpu", kX86, &Target::mcpu},
    {"arch", kCuda, &Target::arch},
    {"features", kX86, &Target::features},
    {"libs", kCuda, &Target::libs},
    {"allow-tf32", kCuda, &Target::allow_tf32, 0, 1},
    {"framework", kX86 | kCuda, &Target::framework},
    {"num-threads", kX86, &Target::num_threads, 0, kMostCores},
    {"cores", kX86, &Target::cores, 1, kMostCores},
    {"sm-count", kCuda, &Target::cores, 1, kMostCores},
    {"vector-bytes", kAll, &Target::vector_bytes, 16, 256, true},
    {"l1-bytes", kAll, &Target::l1_bytes, 1, kMostBytes},
    {"l2-bytes", kAll, &Target::l2_bytes, 1, kMostBytes},
    {"bandwidth", kAll, &Target::bandwidth, 1, 1000000},
    {"shared-bytes", kCuda, &Target::shared_bytes, 0, kMostBytes},
    {"registers", kAll, &Target::registers, 1, 1 << 20},
    {"warp-size", kCuda, &Target::warp_size, 1, 1024, true},
};

bool Takes(const Option& option, TargetKind kind) { return option.kinds >> static_cast<int>(kind) & 1; }

template <class Range>
std::string Join(const Range& names, std::string_view separator = ", ") {
  std::string text;
  for (const auto& name : names) text += Cat(text.empty() ? std::string_view() : separator, name);
  return text;
}

std::string RowNames(std::span<const Row> rows) {
  std::vector<std::string_view> names;
  for (const Row& row : rows) names.push_back(row.name);
  return Join(names);
}

std::string OptionNames(TargetKind kind) {
  std::vector<std::string> names;
  for (const Option& option : kOptions) {
    if (Takes(option, kind)) names.push_back(Cat("-", option.name));
  }
  return Join(names);
}

std::optional<Numbers> Find(std::span<const Row> rows, std::string_view name) {
  for (const Row& row : rows) {
    if (row.name == name) return row.numbers;
  }
  return std::nullopt;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    if (end > begin) parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

void SetNumbers(const Numbers& n, Target* t) {
  t->cores = n.cores;
  t->vector_bytes = n.vector_bytes;
  t->l1_bytes = n.l1_bytes;
  t->l2_bytes = n.l2_bytes;
  t->bandwidth = n.bandwidth;
  t->shared_bytes = n.shared_bytes;
  t->registers = n.registers;
  t->warp_size = n.warp_size;
}

// Fills every field but the ones written in the text: the defaults of a kind and its mcpu or arch.
StatusOr<Target> Defaults(TargetKind kind, std::string_view mcpu, std::string_view arch) {
  Target t;
  t.kind = kind;
  switch (kind) {
    case TargetKind::kX86_64: {
      t.mcpu = mcpu.empty() ? "native" : mcpu;
      if (t.mcpu == "native") {
        SetNumbers(HostNumbers(), &t);
        return t;
      }
      const std::optional<Numbers> numbers = Find(kCpus, t.mcpu);
      if (!numbers) {
        return InvalidArgument("target: option -mcpu: unknown CPU '", mcpu, "'; known: native, ", RowNames(kCpus));
      }
      SetNumbers(*numbers, &t);
      return t;
    }
    case TargetKind::kCuda: {
      t.arch = arch.empty() ? "native" : arch;
      const std::optional<Numbers> numbers = Find(kCudaArchs, t.arch);
      if (!numbers) {
        return InvalidArgument("target: option -arch: unknown arch '", arch, "'; known: ", RowNames(kCudaArchs));
      }
      SetNumbers(*numbers, &t);
      return t;
    }
  }
  return Internal("target: no such kind");
}

Target RowOf(const Target& t) {
  const StatusOr<Target> row = Defaults(t.kind, t.mcpu, t.arch);
  return row.ok() ? *row : Target();
}

Status SetOption(const Option& option, std::string_view value, Target* target) {
  if (const auto* number = std::get_if<int64_t Target::*>(&option.field)) {
    int64_t parsed = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    const bool is_number = error == std::errc() && end == value.data() + value.size();
    const bool is_bad =
        parsed < option.min || parsed > option.max || (option.is_power_of_2 && (parsed & (parsed - 1)) != 0);
    if (!is_number || is_bad) {
      return InvalidArgument("target: option -", option.name, ": expected ",
                             option.is_power_of_2 ? "a power of 2" : "an integer", " from ", option.min, " to ",
                             option.max, ", got '", value, "'");
    }
    target->*(*number) = parsed;
    return absl::OkStatus();
  }
  if (const auto* list = std::get_if<std::vector<std::string> Target::*>(&option.field)) {
    std::vector<std::string> items = Split(value, ',');
    for (const std::string& item : items) {
      if (option.name == "libs" && std::find(std::begin(kLibs), std::end(kLibs), item) == std::end(kLibs)) {
        return InvalidArgument("target: option -libs: unknown library '", item, "'; known: ", Join(kLibs));
      }
      if (option.name == "features" && (item.size() < 2 || (item[0] != '+' && item[0] != '-'))) {
        return InvalidArgument("target: option -features: expected +name or -name, got '", item, "'");
      }
    }
    target->*(*list) = std::move(items);
  }
  if (option.name == "framework") {
    const bool is_cpu = target->kind == TargetKind::kX86_64;
    target->framework = value != "auto" ? value
                        : is_cpu        ? SpeedClassOfCpu(target->mcpu)
                                        : SpeedClassOfArch(target->arch);
    if (FindSpeedRow(target->framework) == nullptr) {
      return InvalidArgument("target: option -framework: unknown row '", value, "'; known: auto, ", SpeedRowNames());
    }
  }
  return absl::OkStatus();  // mcpu and arch: Defaults has checked and set them
}

// The options that differ from `defaults`.
std::string PrintExcept(const Target& t, const Target& defaults) {
  std::string text(Name(t.kind));
  for (const Option& option : kOptions) {
    if (!Takes(option, t.kind)) continue;
    if (const auto* number = std::get_if<int64_t Target::*>(&option.field)) {
      if (t.*(*number) != defaults.*(*number)) text += Cat(" -", option.name, "=", t.*(*number));
    } else if (const auto* name = std::get_if<std::string Target::*>(&option.field)) {
      if (!(t.*(*name)).empty()) text += Cat(" -", option.name, "=", t.*(*name));
    } else {
      const auto& items = t.*std::get<std::vector<std::string> Target::*>(option.field);
      if (!items.empty()) text += Cat(" -", option.name, "=", Join(items, ","));
    }
  }
  return text;
}

}  // namespace

std::string_view Name(TargetKind kind) { return kKinds[static_cast<int>(kind)]; }

bool Target::HasLib(std::string_view name) const { return std::find(libs.begin(), libs.end(), name) != libs.end(); }

StatusOr<Target> Target::Parse(std::string_view text) {
  std::string blanks(text);
  std::replace_if(blanks.begin(), blanks.end(), [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  const std::vector<std::string> words = Split(blanks, ' ');
  if (words.empty()) return InvalidArgument("target: empty text; expected a kind: cpu, ", Join(kKinds));
  const std::string_view kind_name = words[0] == "cpu" ? kKinds[0] : std::string_view(words[0]);
  const auto* found = std::find(std::begin(kKinds), std::end(kKinds), kind_name);
  if (found == std::end(kKinds)) {
    return InvalidArgument("target: unknown kind '", words[0], "'; known: cpu, ", Join(kKinds));
  }
  const auto kind = static_cast<TargetKind>(found - kKinds);

  std::vector<std::pair<const Option*, std::string>> settings;
  std::string mcpu, arch;
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (words[i][0] != '-' || equals == std::string::npos) {
      return InvalidArgument("target: expected -option=value, got '", words[i], "'");
    }
    const std::string name = words[i].substr(1, equals - 1), value = words[i].substr(equals + 1);
    const auto* option = std::find_if(std::begin(kOptions), std::end(kOptions),
                                      [&](const Option& o) { return o.name == name && Takes(o, kind); });
    if (option == std::end(kOptions)) {
      return InvalidArgument("target: ", kind_name, " has no option -", name, "; known: ", OptionNames(kind));
    }
    for (const auto& setting : settings) {
      if (setting.first == option) return InvalidArgument("target: option -", name, " is given twice");
    }
    if (value.empty()) return InvalidArgument("target: option -", name, " has no value");
    if (name == "mcpu") mcpu = value;
    if (name == "arch") arch = value;
    settings.emplace_back(option, value);
  }
  ASSIGN_OR_RETURN(Target target, Defaults(kind, mcpu, arch));
  for (const auto& [option, value] : settings) RETURN_IF_ERROR(SetOption(*option, value, &target));
  return target;
}

Target Target::ResolvedBy(const Target& device) const {
  Target resolved = device;
  const Target defaults = RowOf(*this);
  for (const Option& option : kOptions) {
    if (option.name == "mcpu" || option.name == "arch") continue;
    std::visit(
        [&](auto field) {
          if (this->*field != defaults.*field) resolved.*field = this->*field;
        },
        option.field);
  }
  return resolved;
}

std::string Target::CacheKey() const { return PrintExcept(*this, Target()); }
std::string Target::Print() const { return PrintExcept(*this, RowOf(*this)); }

}  // namespace cinn_like
