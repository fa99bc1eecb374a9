#include <algorithm>

#include "hlir/passes/passes.h"
#include "hlir/rebuild.h"

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
    bool is_static = false;  // depends on static parameters and constants alone
    bool has_param = false;  // on at least one such parameter
    bool has_work = false;   // through an op that is no mere view
    bool decided = false;
  };

  void Classify() {
    for (const Param& p : graph_.params()) {
      if (!p.is_symbol() && p.role == ParamRole::kStatic) facts_[p.value] = {.is_static = true, .has_param = true};
    }
    for (const Op& op : graph_.ops()) {
      Facts f{.is_static = true, .has_work = !IsFreeView(op)};
      for (ValueId v : op.operands) {
        f.is_static = f.is_static && facts_[v].is_static;
        f.has_param = f.has_param || facts_[v].has_param;
        f.has_work = f.has_work || facts_[v].has_work;
      }
      // A symbol may change between calls, and prepare does not know it.
      for (ValueId v : op.results) f.is_static = f.is_static && IsConstant(graph_.TypeOf(v).dims);
      for (const auto& [name, value] : op.attrs.values()) {
        if (const Dim* d = std::get_if<Dim>(&value)) f.is_static = f.is_static && d->IsConst();
        if (const Dims* d = std::get_if<Dims>(&value)) f.is_static = f.is_static && IsConstant(*d);
      }
      for (ValueId v : op.results) facts_[v] = f;
    }
  }

  // Reading through it costs nothing: it keeps the order of elements, or repeats them.
  static bool IsFreeView(const Op& op) { return op.def->is_view && op.def->name != "transpose"; }
  static bool IsConstant(const Dims& dims) {
    return std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return d.IsConst(); });
  }
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
    if (!IsFreeView(*op) && Bytes(v) <= SourceBytes(v)) {
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
