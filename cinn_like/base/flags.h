// Every gflag of cinn_like, in one place (flags.def). `--cinn_dump_ir` on a command line, FLAGS_cinn_dump_ir in the
// environment (read when the library loads), SetFlag("cinn_dump_ir", "true") from a host.
// Flags are read once per compilation into an immutable CompileOptions; nothing else looks at them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "cinn_like/base/status.h"

namespace cinn_like {

namespace flag_types {
using bool_flag = bool;
using int64_flag = int64_t;
using string_flag = std::string;
}  // namespace flag_types

struct CompileOptions {
#define X(type, name, default_value, doc) flag_types::type##_flag name = default_value;
#include "cinn_like/base/flags.def"
#undef X

  // The flags as they stand. An error names the flag, what it takes and what it got (from the environment, too).
  static StatusOr<CompileOptions> FromFlags();

  // What is wrong with the values, if anything.
  Status Check() const;
  bool IsDisabled(std::string_view pass) const;
  // A text of every option that can change the generated code, for cache keys.
  std::string CacheKey() const;
};

// `name` is "cinn_..."; the value is checked.
Status SetFlag(std::string_view name, std::string_view value);
StatusOr<std::string> GetFlag(std::string_view name);
// "cinn_dump_ir, ..." for messages.
std::string_view AllFlagNames();

}  // namespace cinn_like
