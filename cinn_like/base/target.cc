#include "cinn_like/base/target.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <variant>

#include "cinn_like/base/speeds.h"

namespace cinn_like {
namespace {

using Field = std::variant<int64_t Target::*, std::string Target::*, std::vector<std::string> Target::*>;
struct Option {
  std::string_view name;
  Field field;
  int64_t min = 0, max = 0;  // of numbers
  bool is_power_of_2 = false;
};
constexpr int64_t kMostCores = 1 << 16, kMostBytes = int64_t{1} << 40;
const Option kOptions[] = {
    {"mcpu", &Target::mcpu},
    {"arch", &Target::arch},
    {"features", &Target::features},
    {"libs", &Target::libs},
    {"allow-tf32", &Target::allow_tf32, 0, 1},
    {"allow-tf32-convolutions", &Target::allow_tf32_convolutions, 0, 1},
    {"framework", &Target::framework},
    {"num-threads", &Target::num_threads, 0, kMostCores},
    {"cores", &Target::cores, 1, kMostCores},
    {"sm-count", &Target::cores, 1, kMostCores},
    {"vector-bytes", &Target::vector_bytes, 16, 256, true},
    {"l1-bytes", &Target::l1_bytes, 1, kMostBytes},
    {"l2-bytes", &Target::l2_bytes, 1, kMostBytes},
    {"bandwidth", &Target::bandwidth, 1, 1000000},
    {"shared-bytes", &Target::shared_bytes, 0, kMostBytes},
    {"registers", &Target::registers, 1, 1 << 20},
    {"warp-size", &Target::warp_size, 1, 1024, true},
    {"cluster", &Target::cluster, 1, 8, true},
    {"subgroup-size", &Target::subgroup_size, 1, 1024, true},
};

bool Takes(const Option& option, const DeviceKind& device) {
  return std::find(device.options.begin(), device.options.end(), option.name) != device.options.end();
}

template <class Range>
std::string Join(const Range& names, std::string_view separator = ", ") {
  std::string text;
  for (const auto& name : names) text += Cat(text.empty() ? std::string_view() : separator, name);
  return text;
}

std::string OptionNames(const DeviceKind& device) {
  std::vector<std::string> names;
  for (const Option& option : kOptions) {
    if (Takes(option, device)) names.push_back(Cat("-", option.name));
  }
  return Join(names);
}

// "cpu, x86_64, cuda"
std::string KindNames(std::span<const DeviceKind* const> kinds) {
  std::vector<std::string> names;
  for (const DeviceKind* kind : kinds) {
    if (!kind->alias.empty()) names.push_back(kind->alias);
    names.push_back(kind->name);
  }
  return Join(names);
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

void SetNumbers(const DeviceNumbers& n, Target* t) {
  t->cores = n.cores;
  t->vector_bytes = n.vector_bytes;
  t->l1_bytes = n.l1_bytes;
  t->l2_bytes = n.l2_bytes;
  t->bandwidth = n.bandwidth;
  t->shared_bytes = n.shared_bytes;
  t->registers = n.registers;
  t->warp_size = n.warp_size;
  t->cluster = n.cluster;
}

// Fills every field but the ones written in the text: the defaults of a device and its mcpu or arch (empty: its first).
StatusOr<Target> Defaults(const DeviceKind& device, std::string_view name) {
  Target t;
  t.device = &device;
  std::vector<std::string_view> known;
  for (const DeviceKind::Row& row : device.rows) {
    known.push_back(row.name);
    if (!name.empty() && row.name != name) continue;
    (device.has_kernels ? t.arch : t.mcpu) = row.name;
    SetNumbers(row.numbers, &t);
    return t;
  }
  return InvalidArgument("target: option ", device.has_kernels ? "-arch: unknown arch '" : "-mcpu: unknown CPU '", name,
                         "'; known: ", Join(known));
}

Target RowOf(const Target& t) {
  const StatusOr<Target> row = Defaults(*t.device, t.RowName());
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
      const std::vector<std::string>& libs = target->device->libs;
      if (option.name == "libs" && std::find(libs.begin(), libs.end(), item) == libs.end()) {
        return InvalidArgument("target: option -libs: unknown library '", item, "'; known: ", Join(libs));
      }
      if (option.name == "features" && (item.size() < 2 || (item[0] != '+' && item[0] != '-'))) {
        return InvalidArgument("target: option -features: expected +name or -name, got '", item, "'");
      }
      if (option.name == "features" && target->HasKernels() && item.substr(1) != "fp64") {
        return InvalidArgument("target: option -features: unknown feature '", item.substr(1), "'; known: fp64");
      }
    }
    target->*(*list) = std::move(items);
  }
  if (option.name == "framework") {
    target->framework = value != "auto" ? value : target->device->speed_class(target->RowName());
    if (FindSpeedRow(target->framework) == nullptr) {
      return InvalidArgument("target: option -framework: unknown row '", value, "'; known: auto, ", SpeedRowNames());
    }
  }
  return absl::OkStatus();  // mcpu and arch: Defaults has checked and set them
}

// The options that differ from `defaults`.
std::string PrintExcept(const Target& t, const Target& defaults) {
  std::string text = t.device->name;
  for (const Option& option : kOptions) {
    if (!Takes(option, *t.device)) continue;
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

bool Target::IsGpu() const { return HasKernels() && device->limits.shared_bytes > 0 && device->limits.threads > 1; }

LaunchLimits Target::Limits() const {
  LaunchLimits limits = device->limits;
  if (subgroup_size > 1) limits.warp = subgroup_size;
  limits.tensor_copies |= arch == "sm_90a";
  return limits;
}

bool Target::HasLib(std::string_view name) const { return std::find(libs.begin(), libs.end(), name) != libs.end(); }

StatusOr<Target> Target::Parse(std::string_view text, std::span<const DeviceKind* const> kinds) {
  std::string blanks(text);
  std::replace_if(blanks.begin(), blanks.end(), [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  const std::vector<std::string> words = Split(blanks, ' ');
  if (words.empty()) return InvalidArgument("target: empty text; expected a kind: ", KindNames(kinds));
  const auto found = std::find_if(kinds.begin(), kinds.end(),
                                  [&](const DeviceKind* k) { return k->name == words[0] || k->alias == words[0]; });
  if (found == kinds.end()) {
    return InvalidArgument("target: unknown kind '", words[0], "'; known: ", KindNames(kinds));
  }
  const DeviceKind& kind = **found;

  std::vector<std::pair<const Option*, std::string>> settings;
  std::string row;
  for (size_t i = 1; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (words[i][0] != '-' || equals == std::string::npos) {
      return InvalidArgument("target: expected -option=value, got '", words[i], "'");
    }
    const std::string name = words[i].substr(1, equals - 1), value = words[i].substr(equals + 1);
    const auto* option = std::find_if(std::begin(kOptions), std::end(kOptions),
                                      [&](const Option& o) { return o.name == name && Takes(o, kind); });
    if (option == std::end(kOptions)) {
      return InvalidArgument("target: ", kind.name, " has no option -", name, "; known: ", OptionNames(kind));
    }
    for (const auto& setting : settings) {
      if (setting.first == option) return InvalidArgument("target: option -", name, " is given twice");
    }
    if (value.empty()) return InvalidArgument("target: option -", name, " has no value");
    if (name == "mcpu" || name == "arch") row = value;
    settings.emplace_back(option, value);
  }
  ASSIGN_OR_RETURN(Target target, Defaults(kind, row));
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
