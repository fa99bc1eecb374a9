#include <algorithm>

#include "hlir/passes/passes.h"
#include "hlir/rebuild.h"
#include "hlir/static_values.h"

namespace cinn_like::hlir {
namespace {

class Splitter {
 public:
  explicit Splitter(const Graph& graph) : graph_(graph), facts_(graph.num_values()) {}

  StatusOr<StaticSplit> Run() {
    Classify();
    // What `main` reads of the static part.
    std::vector<ValueId> read;
    for (const Op& op : graph_.ops()) {
      if (facts_[op.results[0]].is_static) continue;
      read.insert(read.end(), op.operands.begin(), op.operands.end());
    }
    read.insert(read.end(), graph_.results().begin(), graph_.results().end());
    for (ValueId v : read) Choose(v);
    StaticSplit split{std::nullopt, graph_};
    if (prepared_.empty()) return split;
    ASSIGN_OR_RETURN(split.prepare, MakePrepare());
    ASSIGN_OR_RETURN(split.main, MakeMain());
    return split;
  }

 private:
  struct Facts {
    bool is_static = false;
    bool has_param = false;
    bool has_work = false;  // through an op that is no mere view
    bool has_copy = false;  // a view, perhaps of views, of a copy
    bool decided = false;
  };

  void Classify() {
    const std::vector<StaticFact> found = FindStaticValues(graph_);
    for (int v = 0; v < graph_.num_values(); ++v) {
      facts_[v].is_static = found[v].is_static;
      facts_[v].has_param = found[v].has_param;
    }
    for (const Op& op : graph_.ops()) {
      bool has_work = !IsFreeView(op), has_copy = IsCopy(op);
      for (ValueId v : op.operands) {
        has_work = has_work || facts_[v].has_work;
        has_copy = has_copy || (op.def->is_view && facts_[v].has_copy);
      }
      for (ValueId v : op.results) facts_[v].has_work = has_work, facts_[v].has_copy = has_copy;
    }
  }

  static bool IsCopy(const Op& op) { return op.def->name == "copy"; }
  // Reading through it costs nothing: it keeps the order of elements, or repeats them.
  static bool IsFreeView(const Op& op) { return op.def->is_view && op.def->name != "transpose" && !IsCopy(op); }
  int64_t Bytes(ValueId v) const {
    const TensorType& type = graph_.TypeOf(v);
    return BytesOf(type.dtype) * ProductOf(type.dims).AsConst().value_or(0);
  }

  // Bytes of the static parameters that `v` is made of.
  int64_t SourceBytes(ValueId v) const {
    std::vector<ValueId> todo = {v}, seen;
    int64_t bytes = 0;
    while (!todo.empty()) {
      const ValueId u = todo.back();
      todo.pop_back();
      if (std::find(seen.begin(), seen.end(), u) != seen.end()) continue;
      seen.push_back(u);
      const Op* op = graph_.ProducerOf(u);
      if (!op) bytes += Bytes(u);
      if (op) todo.insert(todo.end(), op->operands.begin(), op->operands.end());
    }
    return bytes;
  }

  // Prepares `v`, or what it is made of.
  void Choose(ValueId v) {
    Facts& f = facts_[v];
    if (!f.is_static || f.decided) return;
    f.decided = true;
    const Op* op = graph_.ProducerOf(v);
    if (!op || !f.has_param || !f.has_work) return;
    // A free view of prepared work is taken in `main`, and what grew on the way is computed there.
    const bool views_copy = f.has_copy && !IsCopy(*op);
    if (IsCopy(*op) || (!views_copy && !IsFreeView(*op) && Bytes(v) <= SourceBytes(v))) {
      prepared_.push_back(v);
      return;
    }
    for (ValueId u : op->operands) Choose(u);
  }

  StatusOr<Graph> MakePrepare() const {
    Graph prepare(graph_.name() + "_prepare", graph_.registry());
    std::vector<ValueRef> values(graph_.num_values());
    for (const Param& p : graph_.params()) {
      if (p.role != ParamRole::kStatic) continue;
      ASSIGN_OR_RETURN(values[p.value].id, prepare.AddParam(p.name, graph_.TypeOf(p.value), p.role, p.strides));
    }
    OpBuilder b(&prepare);
    for (const Op& op : graph_.ops()) {
      if (!facts_[op.results[0]].is_static) continue;
      prepare.SetOrigin(op.origin, op.device);
      std::vector<ValueRef> operands;
      for (ValueId v : op.operands) operands.push_back(values[v]);
      const std::vector<ValueRef> results = b.Call(op.def->name, operands, op.attrs, op.results.size());
      for (size_t i = 0; i < results.size(); ++i) values[op.results[i]] = results[i];
    }
    RETURN_IF_ERROR(b.status());
    std::vector<ValueId> results;
    for (ValueId v : prepared_) results.push_back(values[v].id);
    RETURN_IF_ERROR(prepare.SetResults(std::move(results)));
    return EliminateDeadCode(std::move(prepare), {});
  }

  StatusOr<Graph> MakeMain() const {
    std::vector<ValueRef> values;
    ASSIGN_OR_RETURN(Graph main, CopyInterface(graph_, &values));
    OpBuilder b(&main);
    int next = 0;
    for (ValueId v : prepared_) {
      std::string name;
      StatusOr<ValueId> added = InvalidArgument("");
      // The caller may have a parameter of that name.
      for (; !added.ok() && next < 1000000; ++next) {
        added = main.AddParam(Cat("prepared", next), graph_.TypeOf(v), ParamRole::kPrepared);
      }
      RETURN_IF_ERROR(added.status());
      values[v] = {*added};
    }
    for (const Op& op : graph_.ops()) {
      main.SetOrigin(op.origin, op.device);
      std::vector<ValueRef> operands;
      for (ValueId v : op.operands) operands.push_back(values[v]);
      const std::vector<ValueRef> results = b.Call(op.def->name, operands, op.attrs, op.results.size());
      for (size_t i = 0; i < results.size(); ++i) {
        const ValueId v = op.results[i];
        const bool prepared = std::find(prepared_.begin(), prepared_.end(), v) != prepared_.end();
        if (!prepared) values[v] = results[i];
      }
    }
    RETURN_IF_ERROR(b.status());
    std::vector<ValueId> results;
    for (ValueId v : graph_.results()) results.push_back(values[v].id);
    RETURN_IF_ERROR(main.SetResults(std::move(results)));
    return EliminateDeadCode(std::move(main), {});
  }

  const Graph& graph_;
  std::vector<Facts> facts_;
  std::vector<ValueId> prepared_;
};

}  // namespace

StatusOr<StaticSplit> SplitStatic(const Graph& graph) { return Splitter(graph).Run(); }

}  // namespace cinn_like::hlir
