#include "runtime/last_error.h"

#include <string>

namespace cinn_like {
namespace {
thread_local std::string message;
}  // namespace

int32_t SetLastError(const Status& status) {
  if (status.ok()) return 0;
  message = Message(status);
  return -static_cast<int32_t>(status.code());
}

void ClearLastError() { message.clear(); }

const char* LastError() { return message.c_str(); }

Status LastErrorStatus(int32_t code) {
  if (code >= 0) return absl::OkStatus();
  return Status(static_cast<absl::StatusCode>(-code), message);
}

}  // namespace cinn_like
