// The message behind a negative code: one per thread, alive until the thread's next failure.
#pragma once
#include <cstdint>
#include <string_view>

#include "cinn_like/base/status.h"

namespace cinn_like {

// Stores the message of `status` and returns its code negated, as the calling convention wants; 0 for OK.
int32_t SetLastError(const Status& status);
// Makes it "".
void ClearLastError();
// "" where nothing has failed.
const char* LastError();
// The stored failure again, from the code that a generated function returned.
Status LastErrorStatus(int32_t code);

}  // namespace cinn_like
