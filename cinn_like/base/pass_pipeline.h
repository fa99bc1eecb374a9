// Runs a table of passes over a graph or a module. A pass is `StatusOr<T> Pass(T, const PassContext&)` and one row:
//
//   constexpr Pass<Graph> kPasses[] = {{"fold_constants", FoldConstants}, {"cse", EliminateCommonSubexpressions}};
//   ASSIGN_OR_RETURN(Graph g, RunPipeline<Graph>(std::move(g), kPasses, hooks, context));
//
// The runner alone verifies after each pass, dumps what changed, times each pass and honours
// CompileOptions::disable_passes; a pass never does. "Changed" is computed from the printed form.
#pragma once
#include <chrono>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cinn_like/base/flags.h"
#include "cinn_like/base/status.h"
#include "cinn_like/base/target.h"

namespace cinn_like {

// Seconds by stage, summed over calls; stages in the order of their first report. Threads may share one.
class StageTimes {
 public:
  void Add(std::string_view stage, double seconds);
  std::vector<std::pair<std::string, double>> Get() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<std::string, double>> stages_;
};

// Adds the time until its end of scope to `times`, which may be null.
class ScopedStage {
 public:
  ScopedStage(StageTimes* times, std::string_view stage)
      : times_(times), stage_(times == nullptr ? "" : stage), begin_(std::chrono::steady_clock::now()) {}
  ~ScopedStage() {
    if (times_ == nullptr) return;
    times_->Add(stage_, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count());
  }
  ScopedStage(const ScopedStage&) = delete;
  ScopedStage& operator=(const ScopedStage&) = delete;

 private:
  StageTimes* times_;
  std::string stage_;
  std::chrono::steady_clock::time_point begin_;
};

// What every pass may look at.
struct PassContext {
  CompileOptions options;
  Target target;
  std::string name;             // of the subgraph, for dumps
  StageTimes* times = nullptr;  // may be null
};

template <class T>
struct Pass {
  std::string_view name;
  StatusOr<T> (*run)(T, const PassContext&);
  bool required = false;  // later stages depend on it: naming it in disable_passes is an error
};

// How the runner looks at a T. Null hooks are skipped.
template <class T>
struct PipelineHooks {
  std::string_view stage;  // "graph": prefix of dumps and times
  Status (*verify)(const T&);
  std::string (*print)(const T&);
  Status (*check_text)(std::string_view);  // debug builds: the printed form parses and prints as itself
};

// Writes `text` to options.dump_dir (made if need be) as <name>.<number>.<what>, or to stderr under a headline.
void Dump(const CompileOptions& options, std::string_view name, std::string_view what, std::string_view text);

template <class T>
StatusOr<T> RunPipeline(T value, std::span<const Pass<T>> passes, const PipelineHooks<T>& hooks,
                        const PassContext& context) {
  const bool dump = context.options.dump_ir && hooks.print != nullptr;
#ifdef NDEBUG
  constexpr bool kReparse = false;
#else
  constexpr bool kReparse = true;
#endif
  std::string before = dump ? hooks.print(value) : std::string();
  if (dump) Dump(context.options, context.name, Cat(hooks.stage, ".input"), before);
  for (const Pass<T>& pass : passes) {
    if (context.options.IsDisabled(pass.name)) {
      if (pass.required) return InvalidArgument("pass '", pass.name, "' is required and can't be disabled");
      continue;
    }
    const ScopedStage timer(context.times, Cat(hooks.stage, ".", pass.name));
    StatusOr<T> result = pass.run(std::move(value), context);
    if (!result.ok()) return Annotate(result.status(), Cat("pass '", pass.name, "'"));
    value = *std::move(result);
    if (hooks.verify != nullptr) {
      if (Status s = hooks.verify(value); !s.ok()) {
        return Internal("after pass '", pass.name, "': ", Message(s),
                        hooks.print != nullptr ? Cat("\n", hooks.print(value)) : std::string());
      }
    }
    if (kReparse && hooks.check_text != nullptr && hooks.print != nullptr) {
      RETURN_IF_ERROR(Annotate(hooks.check_text(hooks.print(value)), Cat("text after pass '", pass.name, "'")));
    }
    if (!dump) continue;
    std::string after = hooks.print(value);
    if (after == before) continue;
    Dump(context.options, context.name, Cat(hooks.stage, ".", pass.name), after);
    before = std::move(after);
  }
  return value;
}

}  // namespace cinn_like
