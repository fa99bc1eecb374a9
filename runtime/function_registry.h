// Functions by name (runtime/global_functions.h) for C++.
//
//   RETURN_IF_ERROR(RegisterFunction("twice", [](std::span<const CinnValue> args, CinnValue& result) -> Status {
//     if (args.size() != 1 || args[0].tag != kCinnInt) return InvalidArgument("expected an integer");
//     result = {kCinnInt, 0, {.i = 2 * args[0].i}};
//     return absl::OkStatus();
//   }));
//   ASSIGN_OR_RETURN(const auto twice, FindFunction("twice"));
//   ASSIGN_OR_RETURN(const CinnValue four, twice->Call({&two, 1}));
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cinn_like/base/status.h"
#include "runtime/global_functions.h"

namespace cinn_like {

class RegisteredFunction {
 public:
  RegisteredFunction(std::string name, CinnPackedFunctionPtr call, void* self, void (*release)(void*))
      : name_(std::move(name)), call_(call), self_(self), release_(release) {}
  RegisteredFunction(const RegisteredFunction&) = delete;
  RegisteredFunction& operator=(const RegisteredFunction&) = delete;
  ~RegisteredFunction() {
    if (release_ != nullptr) release_(self_);
  }

  const std::string& name() const { return name_; }
  // Errors name the function.
  StatusOr<CinnValue> Call(std::span<const CinnValue> args) const;

 private:
  const std::string name_;
  const CinnPackedFunctionPtr call_;
  void* const self_;
  void (*const release_)(void*);
};

using NativeFunction = std::function<Status(std::span<const CinnValue> args, CinnValue& result)>;

// AlreadyExists where the name is another's and not to be replaced. A name is letters, digits and other signs that a
// text of loops may quote: neither quotes nor backslashes nor control characters.
Status RegisterFunction(std::string_view name, NativeFunction f, bool replace = false);
// NotFound lists names. What is found can be called after its name is gone.
StatusOr<std::shared_ptr<const RegisteredFunction>> FindFunction(std::string_view name);
Status RemoveFunction(std::string_view name);
std::vector<std::string> RegisteredNames();

}  // namespace cinn_like
