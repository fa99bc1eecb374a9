#include "cinn_like/base/flags.h"

#include <gflags/gflags.h>

#include <charconv>
#include <cstdlib>

#include "absl/strings/match.h"

#define X(type, name, default_value, doc) DEFINE_##type(cinn_##name, default_value, doc);
#include "cinn_like/base/flags.def"
#undef X

namespace cinn_like {
namespace {

struct FlagRow {
  std::string_view name, type;
};
constexpr FlagRow kFlags[] = {
#define X(type, name, default_value, doc) {"cinn_" #name, #type},
#include "cinn_like/base/flags.def"
#undef X
};

const FlagRow* FindFlag(std::string_view name) {
  for (const FlagRow& row : kFlags) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

Status Unknown(std::string_view name) {
  return InvalidArgument("flag '", name, "' is unknown; known: ", AllFlagNames());
}

Status BadValue(std::string_view name, std::string_view expected, std::string_view got) {
  return InvalidArgument("flag '", name, "': expected ", expected, ", got '", got, "'");
}

// gflags' own parser accepts what this accepts; asking first keeps its complaints off stderr.
Status CheckText(const FlagRow& row, std::string_view value) {
  if (row.type == "bool") {
    for (std::string_view ok : {"1", "0", "true", "false", "t", "f", "yes", "no", "y", "n"}) {
      if (absl::EqualsIgnoreCase({value.data(), value.size()}, {ok.data(), ok.size()})) return absl::OkStatus();
    }
    return BadValue(row.name, "true or false", value);
  }
  if (row.type == "int64") {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size()) return BadValue(row.name, "an integer", value);
  }
  return absl::OkStatus();
}

Status SetOne(const FlagRow& row, std::string_view value) {
  RETURN_IF_ERROR(CheckText(row, value));
  // gflags takes its lock here and in Text(): strings are never read while they change.
  if (gflags::SetCommandLineOption(row.name.data(), std::string(value).c_str()).empty()) {
    return BadValue(row.name, row.type, value);
  }
  return absl::OkStatus();
}

std::string Text(const char* name) {
  std::string value;
  gflags::GetCommandLineOption(name, &value);
  return value;
}

void Read(const char* name, bool* value) { *value = Text(name) == "true"; }
void Read(const char* name, int64_t* value) { *value = std::strtoll(Text(name).c_str(), nullptr, 10); }
void Read(const char* name, std::string* value) { *value = Text(name); }

// Runs when the library loads, after the flags above exist. What is wrong is reported by the first compilation.
Status ReadEnvironment() {
  Status first;
  for (const FlagRow& row : kFlags) {
    const char* value = std::getenv(Cat("FLAGS_", row.name).c_str());
    if (value != nullptr) first.Update(Annotate(SetOne(row, value), "environment"));
  }
  return first;
}
const Status environment_status = ReadEnvironment();

}  // namespace

StatusOr<CompileOptions> CompileOptions::FromFlags() {
  RETURN_IF_ERROR(environment_status);
  CompileOptions options;
#define X(type, name, default_value, doc) Read("cinn_" #name, &options.name);
#include "cinn_like/base/flags.def"
#undef X
  RETURN_IF_ERROR(options.Check());
  return options;
}

Status CompileOptions::Check() const {
  if (numerics != "fused" && numerics != "exact") return BadValue("cinn_numerics", "fused or exact", numerics);
  if (thread_pool != "auto" && thread_pool != "own") return BadValue("cinn_thread_pool", "auto or own", thread_pool);
  if (cuda_compiler != "nvrtc" && cuda_compiler != "nvcc" && cuda_compiler.find('/') == std::string::npos)
    return BadValue("cinn_cuda_compiler", "nvrtc, nvcc or a path", cuda_compiler);
  for (const auto& [name, value] : {std::pair<std::string_view, int64_t>{"cinn_num_threads", num_threads},
                                    {"cinn_compile_threads", compile_threads},
                                    {"cinn_cache_size_mb", cache_size_mb}}) {
    if (value < 0) return BadValue(name, "an integer of at least 0", Cat(value));
  }
  return absl::OkStatus();
}

bool CompileOptions::IsDisabled(std::string_view pass) const {
  std::string_view rest = disable_passes;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    if (rest.substr(0, comma) == pass) return true;
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return false;
}

std::string CompileOptions::CacheKey() const {
  return Cat("disable_fusion=", disable_fusion ? 1 : 0, " disable_passes=", disable_passes, " numerics=", numerics,
             " emit_ptx=", emit_ptx ? 1 : 0, " cuda_compiler=", cuda_compiler, " num_threads=", num_threads,
             " check_bounds=", check_bounds ? 1 : 0, " leave_to_framework=", leave_to_framework ? 1 : 0);
}

Status SetFlag(std::string_view name, std::string_view value) {
  const FlagRow* row = FindFlag(name);
  if (row == nullptr) return Unknown(name);
  const std::string before = Text(row->name.data());
  RETURN_IF_ERROR(SetOne(*row, value));
  CompileOptions options;
#define X(type, name, default_value, doc) Read("cinn_" #name, &options.name);
#include "cinn_like/base/flags.def"
#undef X
  if (Status s = options.Check(); !s.ok()) {
    gflags::SetCommandLineOption(row->name.data(), before.c_str());
    return s;
  }
  return absl::OkStatus();
}

StatusOr<std::string> GetFlag(std::string_view name) {
  const FlagRow* row = FindFlag(name);
  if (row == nullptr) return Unknown(name);
  return Text(row->name.data());
}

std::string_view AllFlagNames() {
  static const std::string names = [] {
    std::string s;
    for (const FlagRow& row : kFlags) s += Cat(s.empty() ? "" : ", ", row.name);
    return s;
  }();
  return names;
}

}  // namespace cinn_like
