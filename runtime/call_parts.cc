#include "runtime/call_parts.h"

#include <deque>

#include "cinn_like/base/tensor.h"
#include "cinn_like/base/words.h"
#include "runtime/device_api.h"
#include "runtime/last_error.h"

namespace cinn_like {
namespace {

// A call: what parts have made so far.
class Call {
 public:
  Call(const PartsPlan& plan, const CinnValue* args, const CinnCallEnv& env)
      : plan_(plan), args_(args), caller_(env), made_(plan.params.size()) {}
  ~Call() {
    for (void* block : blocks_) host_->FreeWorkspace(0, block, nullptr);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Status Run(std::span<const CalledPart> parts) {
    ASSIGN_OR_RETURN(host_, GetHostDevice());
    std::vector<CinnValue> symbols;
    for (const PartsPlan::Symbol& s : plan_.symbols) {
      ASSIGN_OR_RETURN(const int64_t value, ValueOf(s));
      symbols.push_back({kCinnInt, 0, {.i = value}});
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      part_ = &plan_.parts[i];
      std::vector<CinnValue> values = symbols;
      for (const int read : part_->reads) {
        const bool is_argument = static_cast<size_t>(read) < plan_.params.size();
        values.push_back(is_argument ? args_[read]
                                     : CinnValue{kCinnTensor, 0, {.tensor = made_[static_cast<size_t>(read)]}});
      }
      for (size_t k = 0; k < part_->makes.size(); ++k) {
        const int result = part_->gives[k];
        values.push_back(result >= 0 ? args_[plan_.params.size() + static_cast<size_t>(result)] : CinnValue{});
        made_.push_back(values.back().tag == kCinnTensor ? values.back().tensor : nullptr);
      }
      CinnCallEnv env = caller_;
      env.context = this;
      env.alloc = &Allocate;
      env.free = nullptr;
      env.release = nullptr;
      const int32_t code = parts[i].entry(parts[i].self, values.data(), static_cast<int32_t>(values.size()), &env);
      RETURN_IF_ERROR(failure_);
      if (code != 0) return LastErrorStatus(code);
    }
    return absl::OkStatus();
  }

 private:
  struct Made {
    DLTensor tensor{};
    std::vector<int64_t> shape, strides;
  };

  // A symbol that a call's arguments say; each part checks its own against it.
  StatusOr<int64_t> ValueOf(const PartsPlan::Symbol& symbol) const {
    for (const auto& [index, dim] : symbol.places) {
      const CinnValue& arg = args_[index];
      const PartsPlan::Param& p = plan_.params[static_cast<size_t>(index)];
      const auto wrong = [&](const auto&... what) {
        return InvalidArgument("@", plan_.name, ": argument '", p.name, "': expected ", what...);
      };
      if (dim < 0) {
        if (arg.tag != kCinnInt) return wrong("an integer");
        return arg.i;
      }
      if (p.is_static && arg.tag == kCinnNone) continue;
      const DLTensor* t = arg.tag == kCinnTensor ? arg.tensor : nullptr;
      if (t == nullptr || dim >= t->ndim || t->shape == nullptr) return wrong("a tensor ", p.type);
      return t->shape[dim];
    }
    return InvalidArgument("@", plan_.name, ": nothing says what ", symbol.name, " is");
  }

  // Results by the caller, what other parts read in workspaces.
  static int32_t Allocate(void* context, int32_t index, DLTensor* spec) {
    Call& call = *static_cast<Call*>(context);
    const int result = index < 0 ? -1 : call.part_->gives[static_cast<size_t>(index)];
    if (result >= 0) {
      if (call.caller_.alloc == nullptr) {
        return SetLastError(call.failure_ = InvalidArgument("@", call.plan_.name, ": result ", result,
                                                            " is not given, and there is no allocator"));
      }
      if (const int32_t code = call.caller_.alloc(call.caller_.context, result, spec); code != 0) return code;
    } else {
      const StatusOr<void*> block = call.host_->AllocWorkspace(0, NumBytes(*spec), nullptr);
      if (!block.ok()) return SetLastError(call.failure_ = block.status());
      call.blocks_.push_back(*block);
      spec->data = *block;
    }
    if (index < 0) return 0;
    Made& made = call.tensors_.emplace_back();
    made.shape.assign(spec->shape, spec->shape + spec->ndim);
    made.tensor = *spec;
    made.tensor.shape = made.shape.data();
    if (spec->strides != nullptr) {
      made.strides.assign(spec->strides, spec->strides + spec->ndim);
      made.tensor.strides = made.strides.data();
    }
    call.made_[static_cast<size_t>(call.part_->makes[static_cast<size_t>(index)])] = &made.tensor;
    return 0;
  }

  const PartsPlan& plan_;
  const CinnValue* const args_;
  const CinnCallEnv& caller_;
  DeviceApi* host_ = nullptr;
  const PartsPlan::Part* part_ = nullptr;  // that runs
  std::vector<DLTensor*> made_;            // by value
  std::deque<Made> tensors_;
  std::vector<void*> blocks_;
  Status failure_;
};

constexpr int64_t kMost = 1 << 24;

// `values`: how many there are so far.
bool ReadLine(std::string_view line, int* values, PartsPlan* r) {
  Words fields(line, '|');
  const std::string_view kind = fields.Take();
  if (kind == "param" || kind == "static") {
    PartsPlan::Param& p = r->params.emplace_back();
    p.name = fields.Take();
    p.type = fields.Take();
    p.is_static = kind == "static";
    *values = static_cast<int>(r->params.size());
    return r->parts.empty() && fields.is_done();
  }
  if (kind == "symbol") {
    PartsPlan::Symbol& s = r->symbols.emplace_back();
    s.name = fields.Take();
    Words places(fields.Take());
    while (!places.is_done()) {
      PartsPlan::Symbol::Place& p = s.places.emplace_back();
      const auto last = static_cast<int64_t>(r->params.size()) - 1;
      if (!places.TakeNumber(&p.param, 0, last) || !places.TakeNumber(&p.dim, -1, kMost)) return false;
    }
    return fields.is_done();
  }
  if (kind != "part") return false;
  PartsPlan::Part& p = r->parts.emplace_back();
  p.name = fields.Take();
  if (!Words(fields.Take()).TakeNumbers(&p.reads, 0, *values - 1) ||
      !Words(fields.Take()).TakeNumbers(&p.makes, *values, kMost) ||
      !Words(fields.Take()).TakeNumbers(&p.gives, -1, r->results - 1) ||
      !Words(fields.Take()).TakeNumbers(&p.statics, 0, kMost) || p.gives.size() != p.makes.size()) {
    return false;
  }
  for (const int made : p.makes) {
    if (made != (*values)++) return false;
  }
  return fields.is_done();
}

}  // namespace

std::string PartsPlan::Encode() const {
  std::string text = Cat("parts|", name, "|", results, "\n");
  for (const Param& p : params) text += Cat(p.is_static ? "static|" : "param|", p.name, "|", p.type, "\n");
  for (const Symbol& s : symbols) {
    std::vector<int> numbers;
    for (const auto& [param, dim] : s.places) numbers.insert(numbers.end(), {param, dim});
    text += Cat("symbol|", s.name, "|", JoinWords(numbers), "\n");
  }
  for (const Part& p : parts) {
    text += Cat("part|", p.name, "|", JoinWords(p.reads), "|", JoinWords(p.makes), "|", JoinWords(p.gives), "|",
                JoinWords(p.statics), "\n");
  }
  return text;
}

StatusOr<PartsPlan> PartsPlan::Decode(std::string_view text) {
  PartsPlan r;
  int values = 0;
  Words lines(text, '\n');
  const std::string_view first = lines.Take();
  Words fields(first, '|');
  bool is_right = fields.Take() == "parts";
  r.name = fields.Take();
  is_right = is_right && fields.TakeNumber(&r.results, 0, kMost) && fields.is_done();
  std::string_view line = first;
  while (is_right && !lines.is_done()) is_right = ReadLine(line = lines.Take(), &values, &r);
  if (!is_right) return absl::DataLossError(Cat("parts are described as '", line, "'"));
  return r;
}

Status CallParts(const PartsPlan& plan, std::span<const CalledPart> parts, const CinnValue* args, int32_t num_args,
                 const CinnCallEnv* env) {
  if (env == nullptr || env->size < sizeof(CinnCallEnv))
    return InvalidArgument("@", plan.name, ": the call's environment is null or older than this library");
  const size_t expected = plan.params.size() + static_cast<size_t>(plan.results);
  if (args == nullptr || num_args < 0 || static_cast<size_t>(num_args) != expected)
    return InvalidArgument("@", plan.name, ": expected ", expected, " arguments, got ", num_args);
  return Call(plan, args, *env).Run(parts);
}

}  // namespace cinn_like
