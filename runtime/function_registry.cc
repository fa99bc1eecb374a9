#include "runtime/function_registry.h"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "cinn_like/base/json.h"
#include "runtime/last_error.h"

struct CinnGlobalFunction {
  std::shared_ptr<const cinn_like::RegisteredFunction> function;
};

namespace cinn_like {
namespace {

constexpr size_t kMostListed = 20;  // in an error

using Shared = std::shared_ptr<const RegisteredFunction>;

// It outlives every thread that might call. What is released is released outside of the lock: it may call us.
struct Registry {
  std::shared_mutex mutex;
  std::map<std::string, Shared, std::less<>> functions;
};
Registry& TheRegistry() {
  static auto* registry = new Registry;
  return *registry;
}

Status CheckName(std::string_view name) {
  for (const char c : name) {
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ')
      return InvalidArgument("a function's name has no quotes, backslashes and control characters, got '", name, "'");
  }
  return name.empty() ? InvalidArgument("a function's name is not empty") : Status();
}

// Takes `self` unless it fails.
Status Add(std::string_view name, CinnPackedFunctionPtr call, void* self, void (*release)(void*), bool replace) {
  RETURN_IF_ERROR(CheckName(name));
  if (call == nullptr) return InvalidArgument("function '", name, "': no code to call");
  Shared before;  // goes behind the lock
  Registry& registry = TheRegistry();
  const std::unique_lock lock(registry.mutex);
  Shared& at = registry.functions[std::string(name)];
  if (at != nullptr && !replace) return absl::AlreadyExistsError(Cat("function '", name, "' is registered already"));
  before = std::exchange(at, std::make_shared<RegisteredFunction>(std::string(name), call, self, release));
  return absl::OkStatus();
}

Status NotRegistered(std::string_view name) {
  const std::vector<std::string> names = RegisteredNames();
  std::string known;
  for (size_t i = 0; i < names.size() && i < kMostListed; ++i) known += Cat(i == 0 ? "; there are " : ", ", names[i]);
  if (names.size() > kMostListed) known += Cat(" and ", names.size() - kMostListed, " more");
  return absl::NotFoundError(Cat("no function '", name, "' is registered", known));
}

// Of a std::function behind `self`.
int32_t CallNative(void* self, const CinnValue* args, int32_t num_args, CinnValue* result) {
  return SetLastError((*static_cast<NativeFunction*>(self))({args, static_cast<size_t>(num_args)}, *result));
}
void ReleaseNative(void* self) { delete static_cast<NativeFunction*>(self); }

}  // namespace

StatusOr<CinnValue> RegisteredFunction::Call(std::span<const CinnValue> args) const {
  CinnValue result{};
  ClearLastError();
  const int32_t code = call_(self_, args.data(), static_cast<int32_t>(args.size()), &result);
  if (code == 0) return result;
  // tvm-ffi's functions return -1, which says nothing.
  const bool is_known = code < -1 && code >= -static_cast<int32_t>(absl::StatusCode::kUnauthenticated);
  const std::string_view why = LastError();
  return Status(is_known ? static_cast<absl::StatusCode>(-code) : absl::StatusCode::kUnknown,
                Cat("function '", name_, "': ", why.empty() ? "failed without a message" : why));
}

Status RegisterFunction(std::string_view name, NativeFunction f, bool replace) {
  auto self = std::make_unique<NativeFunction>(std::move(f));
  RETURN_IF_ERROR(Add(name, &CallNative, self.get(), &ReleaseNative, replace));
  self.release();
  return absl::OkStatus();
}

StatusOr<Shared> FindFunction(std::string_view name) {
  {
    Registry& registry = TheRegistry();
    const std::shared_lock lock(registry.mutex);
    if (const auto at = registry.functions.find(name); at != registry.functions.end()) return at->second;
  }
  return NotRegistered(name);
}

Status RemoveFunction(std::string_view name) {
  Shared removed;
  {
    Registry& registry = TheRegistry();
    const std::unique_lock lock(registry.mutex);
    if (const auto at = registry.functions.find(name); at != registry.functions.end()) {
      removed = std::move(at->second);
      registry.functions.erase(at);
    }
  }
  return removed == nullptr ? NotRegistered(name) : absl::OkStatus();
}

std::vector<std::string> RegisteredNames() {
  Registry& registry = TheRegistry();
  const std::shared_lock lock(registry.mutex);
  std::vector<std::string> names;
  for (const auto& [name, function] : registry.functions) names.push_back(name);
  return names;
}

}  // namespace cinn_like

extern "C" {

int32_t CinnGlobalRegister(const char* name, CinnPackedFunctionPtr call, void* self, void (*release)(void* self),
                           int32_t replace) {
  using namespace cinn_like;
  if (name == nullptr) return SetLastError(InvalidArgument("name must not be null"));
  return SetLastError(Add(name, call, self, release, replace != 0));
}

int32_t CinnGlobalRemove(const char* name) {
  using namespace cinn_like;
  if (name == nullptr) return SetLastError(InvalidArgument("name must not be null"));
  return SetLastError(RemoveFunction(name));
}

int32_t CinnGlobalFind(const char* name, CinnGlobalFunction** out) {
  using namespace cinn_like;
  if (out != nullptr) *out = nullptr;
  if (name == nullptr || out == nullptr) return SetLastError(InvalidArgument("name and out must not be null"));
  auto found = FindFunction(name);
  if (!found.ok()) return SetLastError(found.status());
  *out = new CinnGlobalFunction{*std::move(found)};
  return 0;
}

void CinnGlobalRelease(CinnGlobalFunction* function) { delete function; }

int32_t CinnGlobalCall(const CinnGlobalFunction* function, const CinnValue* args, int32_t num_args, CinnValue* result) {
  using namespace cinn_like;
  if (result != nullptr) *result = {};
  if (function == nullptr || num_args < 0 || (args == nullptr && num_args != 0)) {
    return SetLastError(InvalidArgument("function and args must not be null"));
  }
  const auto given = function->function->Call({args, static_cast<size_t>(num_args)});
  if (given.ok() && result != nullptr) *result = *given;
  return SetLastError(given.status());
}

int32_t CinnGlobalFail(const char* message) {
  return cinn_like::SetLastError(absl::UnknownError(message == nullptr ? "" : message));
}

const char* CinnGlobalList(void) {
  thread_local std::string json;
  json = "[";
  for (const std::string& name : cinn_like::RegisteredNames())
    json += cinn_like::Cat(json.size() == 1 ? "" : ",", cinn_like::JsonString(name));
  json += "]";
  return json.c_str();
}

}  // extern "C"
