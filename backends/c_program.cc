#include "backends/c_program.h"

#include <algorithm>

#include "absl/strings/str_replace.h"
#include "backends/c_emitter.h"
#include "backends/entry_spec.h"

namespace cinn_like::backends {
namespace {

// $S says what the functions take and give, $L what it links with, $P what is to be said of static parameters.
constexpr std::string_view kAbout = R"(/* C99 by cinn_like, for the C library with libm and $L.

$S
   int32_t fn(void* self, const CinnValue* args, int32_t num_args, const CinnCallEnv* env);

   `args` are the parameters in order, then the results. A tensor is a DLTensor of the host, contiguous where nothing else
   is said, aligned to its elements (tag kCinnTensor); a result overlaps no other tensor, and where it is None (tag
   kCinnNone), env->alloc is asked for its memory. `env` may be null: there is no allocator then. Where it has both alloc
   and free, the workspace comes from there, too, else from malloc.
   Returns 0, or -3: an argument is not as said above (nothing was computed), -8: there is no memory, -9: not prepared,
   -11: an index or a size is out of range. Compile with -D'CINN_ERROR(what, why)=...' to be told the texts of an error.
   Any number of threads may call it at once. With OpenMP (-fopenmp) its loops run in parallel.
$P
   With CINN_DECLARATIONS defined the file is its own header; it follows dlpack/dlpack.h and runtime/call.h where these are
   included, too. */
)";

constexpr std::string_view kNeedsRuntime =
    "libcinn_runtime, whose names (runtime/global_functions.h) it looks up:\n"
    "   what a function by that name returns if it fails is returned, and CinnLibraryError() says why";

// $F is the function.
constexpr std::string_view kAboutPrepare = R"(
   `self` points to a $F_state, which is all zeros at first. $F_prepare, with the static parameters alone as `args`,
   computes in it what depends on them alone: once before the first call, and again when their values change, never while
   calls run. $F_release frees that.
)";

constexpr std::string_view kTypes = R"(
#include <stdint.h>

#if !defined(CINN_LIKE_RUNTIME_CALL_H_) && !defined(CINN_LIKE_CALL_TYPES)
#define CINN_LIKE_CALL_TYPES
#ifndef DLPACK_DLPACK_H_
typedef struct {
  int32_t device_type; /* 1: the host */
  int32_t device_id;
} DLDevice;
typedef struct {
  uint8_t code; /* 0: signed, 1: unsigned, 2: float, 4: bfloat, 6: bool */
  uint8_t bits;
  uint16_t lanes; /* 1 */
} DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; null: contiguous */
  uint64_t byte_offset;
} DLTensor;
#endif
enum { kCinnNone = 0, kCinnInt = 1, kCinnBool = 2, kCinnFloat = 3, kCinnPointer = 4, kCinnTensor = 7 };
typedef struct CinnValue {
  int32_t tag;
  uint32_t zero; /* 0 */
#ifdef __GNUC__
  __extension__
#endif
  union {
    int64_t i;
    double f;
    void* p;
    DLTensor* tensor;
  };
} CinnValue;
typedef struct CinnCallEnv {
  uint32_t size;   /* sizeof(CinnCallEnv) */
  DLDevice device; /* {1, 0} */
  void* stream;
  void* context; /* of the callbacks */
  /* Sets spec->data: memory of the result `index`, or, of index -1, of a workspace. 0 where it could. May be null. */
  int32_t (*alloc)(void* context, int32_t index, DLTensor* spec);
  void (*free)(void* context, void* data);       /* of a workspace; may be null */
  void (*release)(void* context, int32_t index); /* not called */
} CinnCallEnv;
#endif
)";

// "mlp(x: f32[n,64], w: f32[64,32] static) -> y: f32[n,32], where n in 1..4096"
std::string Describe(const ArgSpec& spec) {
  std::string params, results, symbols;
  for (const ArgInfo& a : spec.args) {
    if (a.role == ArgRole::kPrepared) continue;
    std::string& to = a.role == ArgRole::kResult ? results : params;
    const std::string type = a.role == ArgRole::kSymbol ? "an integer" : DescribeType(a, spec.symbols);
    to += Cat(to.empty() ? "" : ", ", a.name, ": ", type, a.role == ArgRole::kPacked ? " static" : "");
  }
  for (const SymbolSpec& s : spec.symbols) {
    symbols += Cat(symbols.empty() ? ", where " : ", ", s.name, " in ", s.min, "..", s.max,
                   s.divisor == 1 ? "" : Cat(" multiple ", s.divisor));
  }
  return Cat(spec.function, "(", params, ") -> ", results, symbols);
}

bool CallsByName(const ir::Func& f) {
  bool found = false;
  ir::VisitStmts(f.body, [&](const ir::Stmt& s) {
    const auto* call = ir::As<ir::Call>(s);
    return !(found |= call != nullptr && call->IsOfFunction());
  });
  return found;
}

// What a graph may be called, and a function of C not.
Status CheckName(std::string_view name) {
  constexpr std::string_view kTaken[] = {
      "auto",   "bool", "break",    "case",     "char",     "const", "continue", "default", "do",     "double",
      "else",   "enum", "extern",   "false",    "float",    "for",   "goto",     "if",      "inline", "int",
      "long",   "main", "register", "restrict", "return",   "short", "signed",   "sizeof",  "static", "struct",
      "switch", "true", "typedef",  "union",    "unsigned", "void",  "volatile", "while"};
  if (std::find(std::begin(kTaken), std::end(kTaken), name) == std::end(kTaken)) return absl::OkStatus();
  return InvalidArgument("graph @", name, ": C has another meaning for its name");
}

}  // namespace

StatusOr<std::string> EmitCProgram(const ir::Module& module, const DeviceKind& device, std::string_view main,
                                   std::string_view prepare, const SourceHooks& hooks) {
  const Dialect& d = CDialect();
  const auto count_slots = [](const ir::Func& f) {
    return static_cast<int>(std::count_if(f.params.begin(), f.params.end(),
                                          [](const ir::Param& p) { return p.role == ir::ParamRole::kPrepared; }));
  };
  const ir::Func* fn = prepare.empty() ? nullptr : module.Find(main);
  RET_CHECK(prepare.empty() || fn != nullptr, main);
  const int slots = fn == nullptr ? 0 : count_slots(*fn);
  const std::string state = slots > 0 ? Cat(main, "_state") : "";

  std::string declarations, about, prototypes, functions;
  std::vector<std::string> texts, names;
  if (slots > 0) declarations += Cat("typedef struct ", state, " {\n  void* prepared[", slots, "];\n} ", state, ";\n");
  for (const ir::Func& f : module.funcs) {
    if (f.kind != ir::FuncKind::kEntry) {
      ASSIGN_OR_RETURN(std::string text, EmitFunc(f, d, f.name));
      text = Cat("static ", text);
      prototypes += Cat(text.substr(0, text.find(" {\n")), ";\n");
      functions += Cat(functions.empty() ? "" : "\n", text);
      names.push_back(f.name);
      continue;
    }
    RETURN_IF_ERROR(CheckName(f.name));
    if (f.name != main && count_slots(f) > 0)
      return InvalidArgument("function @", f.name, ": no function computes its prepared parameters");
    const bool has_state = f.name == main || f.name == prepare;
    CEntry entry{{}, f.name == prepare, has_state ? state : "", has_state ? slots : 0};
    ASSIGN_OR_RETURN(entry.spec, MakeArgSpec(f, device));
    ASSIGN_OR_RETURN(std::string text, EmitEntry(f, d, entry));
    texts.push_back(std::move(text));
    declarations += Cat(SignatureOf(entry), ";\n");
    if (f.name != prepare) about += Cat("     ", Describe(entry.spec), "\n");
  }
  if (slots > 0) {
    const std::string release = Cat("void ", main, "_release(void* self)");
    declarations += release + ";\n";
    std::string text = Cat(release, " {\n  ", state, "* const state = (", state, "*)self;\n");
    for (int i = 0; i < slots; ++i) text += Cat("  free(state->prepared[", i, "]);\n  state->prepared[", i, "] = 0;\n");
    texts.push_back(text + "}\n");
  }
  if (hooks && !names.empty()) {
    ASSIGN_OR_RETURN(functions, ReplaceSource(hooks, d.name, [&] { return functions; }));
    for (const std::string& name : names) {
      if (!HasFunction(functions, name)) return NoFunction(name);
    }
  }
  if (!names.empty()) texts.insert(texts.begin(), std::move(functions));
  texts.insert(texts.begin(), std::move(prototypes));

  std::string head(kAbout);
  absl::StrReplaceAll({{"$P", std::string(slots > 0 ? kAboutPrepare : "")}}, &head);
  const bool by_name = std::any_of(module.funcs.begin(), module.funcs.end(), CallsByName);
  absl::StrReplaceAll(
      {{"$F", std::string(main)}, {"$S", about}, {"$L", std::string(by_name ? kNeedsRuntime : "nothing else")}}, &head);
  return Cat(head, kTypes, "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n", declarations,
             "#ifdef __cplusplus\n}\n#endif\n\n#ifndef CINN_DECLARATIONS\n", JoinSource(d, texts), "#endif\n");
}

}  // namespace cinn_like::backends
