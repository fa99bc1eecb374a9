// An independent evaluator of graphs: every op of docs/graph_text.md in double, written from that page and from what
// PyTorch does, never from the OpDef's own meaning.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include "hlir/graph.h"
#include "ir/expr.h"

namespace cinn_like::hlir {

using Index = std::vector<int64_t>;

struct Tensor {
  DType dtype = DType::kF32;
  Index shape;
  std::vector<double> data;

  Tensor() = default;
  Tensor(DType t, Index s) : dtype(t), shape(std::move(s)) { data.resize(Count(shape)); }
  static size_t Count(const Index& s) {
    size_t n = 1;
    for (int64_t d : s) n *= d;
    return n;
  }
  size_t Flat(const Index& i) const {
    size_t flat = 0;
    for (size_t k = 0; k < shape.size(); ++k) flat = flat * shape[k] + i[k];
    return flat;
  }
  double& operator[](const Index& i) { return data[Flat(i)]; }
  double operator[](const Index& i) const { return data[Flat(i)]; }
};

inline void ForEachIndex(const Index& shape, const std::function<void(const Index&)>& f) {
  Index i(shape.size(), 0);
  for (size_t n = Tensor::Count(shape); n > 0; --n) {
    f(i);
    for (size_t k = shape.size(); k-- > 0;) {
      if (++i[k] < shape[k]) break;
      i[k] = 0;
    }
  }
}

// Calls f(place of the tap in its window, place in the image) for every tap of the window at `at` that lies inside of
// an image `in`; all three of them NC....
template <class F>
void ForEachTap(const Attrs& a, const Index& in, const Index& at, const Index& kernel, F f) {
  const auto number = [&](const char* name, size_t k, int64_t otherwise) {
    return a.Find(name) && !a.Ints(name).empty() ? a.Ints(name)[k] : otherwise;
  };
  ForEachIndex(kernel, [&](const Index& tap) {
    Index place = {at[0], at[1]};
    bool inside = true;
    for (size_t k = 0; k < tap.size(); ++k) {
      place.push_back(at[2 + k] * number("stride", k, 1) + tap[k] * number("dilation", k, 1) - number("padding", k, 0));
      inside = inside && place.back() >= 0 && place.back() < in[2 + k];
    }
    if (inside) f(tap, place);
  });
}

// The number of a place NC... within its image.
inline int64_t FlatPlace(const Index& in, const Index& place) {
  int64_t r = 0;
  for (size_t k = 2; k < in.size(); ++k) r = r * in[k] + place[k];
  return r;
}

class Evaluator {
 public:
  explicit Evaluator(std::map<std::string, int64_t> symbols) : symbols_(std::move(symbols)) {}

  int64_t ValueOf(const Dim& d) const {
    return d.Evaluate([this](const std::string& s) { return symbols_.at(s); });
  }
  Index ValueOf(const Dims& dims) const {
    Index values;
    for (const Dim& d : dims) values.push_back(ValueOf(d));
    return values;
  }

  // `inputs` are the tensor parameters in order. Results in order.
  std::vector<Tensor> Run(const Graph& g, const std::vector<Tensor>& inputs) const {
    std::vector<Tensor> values(g.num_values());
    size_t next = 0;
    for (const Param& p : g.params()) {
      if (!p.is_symbol()) values[p.value] = inputs[next++];
    }
    for (const Op& op : g.ops()) {
      std::vector<Tensor> x, y;
      for (ValueId v : op.operands) x.push_back(values[v]);
      for (ValueId v : op.results) y.emplace_back(g.TypeOf(v).dtype, ValueOf(g.TypeOf(v).dims));
      RunOp(op, x, &y);
      for (Tensor& t : y) {
        if (!IsInt(t.dtype)) continue;
        for (double& v : t.data) v = CastTo(t.dtype, v);  // integers wrap
      }
      for (size_t k = 0; k < y.size(); ++k) values[op.results[k]] = std::move(y[k]);
    }
    std::vector<Tensor> results;
    for (ValueId v : g.results()) results.push_back(values[v]);
    return results;
  }

 private:
  using T = std::vector<Tensor>;

  // Element of a tensor at the place that broadcasting gives.
  static double Broadcast(const Tensor& x, const Index& i) {
    Index at(x.shape.size());
    for (size_t k = 0; k < at.size(); ++k) at[k] = x.shape[k] == 1 ? 0 : i[i.size() - at.size() + k];
    return x[at];
  }

  static double FloorMod(double a, double b) {
    const double r = std::fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  }
  static double MaxNan(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }
  static double MinNan(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b); }
  static double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

  static const std::map<std::string, std::function<double(double)>>& Unary() {
    static const std::map<std::string, std::function<double(double)>> table = {
        {"neg", [](double x) { return -x; }},
        {"abs", [](double x) { return std::abs(x); }},
        {"exp", [](double x) { return std::exp(x); }},
        {"log", [](double x) { return std::log(x); }},
        {"sqrt", [](double x) { return std::sqrt(x); }},
        {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
        {"tanh", [](double x) { return std::tanh(x); }},
        {"erf", [](double x) { return std::erf(x); }},
        {"sigmoid", Sigmoid},
        {"relu", [](double x) { return MaxNan(x, 0); }},
        {"sin", [](double x) { return std::sin(x); }},
        {"cos", [](double x) { return std::cos(x); }},
        {"floor", [](double x) { return std::floor(x); }},
        {"ceil", [](double x) { return std::ceil(x); }},
        {"round", [](double x) { return std::nearbyint(x); }},
        {"sign", [](double x) { return x > 0   ? 1.
                                       : x < 0 ? -1.
                                               : 0.; }},
        {"reciprocal", [](double x) { return 1 / x; }},
        {"log1p", [](double x) { return std::log1p(x); }},
        {"expm1", [](double x) { return std::expm1(x); }},
        {"silu", [](double x) { return x * Sigmoid(x); }},
        {"square", [](double x) { return x * x; }},
        {"isnan", [](double x) { return double(std::isnan(x)); }},
    };
    return table;
  }

  static const std::map<std::string, std::function<double(double, double)>>& Binary() {
    using I = int64_t;
    static const std::map<std::string, std::function<double(double, double)>> table = {
        {"add", [](double a, double b) { return a + b; }},
        {"sub", [](double a, double b) { return a - b; }},
        {"mul", [](double a, double b) { return a * b; }},
        {"div", [](double a, double b) { return a / b; }},
        {"pow", [](double a, double b) { return std::pow(a, b); }},
        {"maximum", MaxNan},
        {"minimum", MinNan},
        {"mod", FloorMod},
        {"floor_div", [](double a, double b) { return std::floor(a / b); }},
        {"and", [](double a, double b) { return double(I(a) & I(b)); }},
        {"or", [](double a, double b) { return double(I(a) | I(b)); }},
        {"xor", [](double a, double b) { return double(I(a) ^ I(b)); }},
        {"eq", [](double a, double b) { return double(a == b); }},
        {"ne", [](double a, double b) { return double(a != b); }},
        {"lt", [](double a, double b) { return double(a < b); }},
        {"le", [](double a, double b) { return double(a <= b); }},
        {"gt", [](double a, double b) { return double(a > b); }},
        {"ge", [](double a, double b) { return double(a >= b); }},
    };
    return table;
  }

  double NumberOf(const Attr& a) const {
    const double* v = std::get_if<double>(&a);
    return v ? *v : static_cast<double>(ValueOf(std::get<Dim>(a)));
  }

  static double CastTo(DType t, double v) {
    if (t == DType::kBool) return v != 0;
    if (IsFloat(t)) return ir::RoundTo(t, v);
    return static_cast<double>(ir::WrapTo(t, static_cast<int64_t>(v)));
  }

  void RunOp(const Op& op, const T& x, T* y) const {
    const std::string& name = op.def->name;
    Tensor& r = (*y)[0];
    auto fill = [&](const std::function<double(const Index&)>& f) {
      ForEachIndex(r.shape, [&](const Index& i) { r[i] = f(i); });
    };
    if (const auto it = Unary().find(name); it != Unary().end())
      return fill([&](const Index& i) { return it->second(x[0][i]); });
    if (const auto it = Binary().find(name); it != Binary().end()) {
      return fill([&](const Index& i) {
        const double a = Broadcast(x[0], i), b = Broadcast(x[1], i);
        // Integers divided by 0: a, remainder 0.
        if (IsInt(r.dtype) && b == 0 && (name == "mod" || name == "floor_div")) return name == "mod" ? 0 : a;
        return it->second(a, b);
      });
    }
    if (name.starts_with("reduce_") || name.starts_with("arg")) return Reduce(op, x[0], &r);
    if (name.starts_with("cum")) return Scan(op, x[0], y);
    if (name.find("softmax") != name.npos || name.ends_with("_norm")) return Normalize(op, x, &r);
    if (name.starts_with("conv")) return Convolve(op, x, &r);
    if (name.find("_pool") != name.npos) return Pool(op, x, y);
    Rest(op, x, &r);
  }

  void Rest(const Op& op, const T& x, Tensor* out) const {
    const std::string& name = op.def->name;
    Tensor& r = *out;
    const Attrs& a = op.attrs;
    auto fill = [&](const std::function<double(const Index&)>& f) {
      ForEachIndex(r.shape, [&](const Index& i) { r[i] = f(i); });
    };
    auto clamp = [](double v, int64_t n) { return std::clamp<int64_t>(static_cast<int64_t>(v), 0, n - 1); };
    if (name == "gelu") {
      const bool tanh = a.String("approximate") == "tanh";
      fill([&](const Index& i) {
        const double v = x[0][i];
        return tanh ? 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)))
                    : 0.5 * v * std::erfc(-v / std::sqrt(2));
      });
    } else if (name == "not") {
      fill([&](const Index& i) {
        return r.dtype == DType::kBool ? double(x[0][i] == 0) : double(~static_cast<int64_t>(x[0][i]));
      });
    } else if (name == "select") {
      fill([&](const Index& i) { return Broadcast(x[0], i) != 0 ? Broadcast(x[1], i) : Broadcast(x[2], i); });
    } else if (name == "cast") {
      fill([&](const Index& i) { return CastTo(r.dtype, x[0][i]); });
    } else if (name == "full") {
      fill([&](const Index&) { return CastTo(r.dtype, NumberOf(a.Number("value"))); });
    } else if (name == "iota") {
      fill([&](const Index& i) { return double(i[a.Int("axis")]); });
    } else if (name == "reshape" || name == "copy") {
      r.data = x[0].data;
    } else if (name == "transpose") {
      const Index perm = a.Ints("perm");
      fill([&](const Index& i) {
        Index at(i.size());
        for (size_t k = 0; k < i.size(); ++k) at[perm[k]] = i[k];
        return x[0][at];
      });
    } else if (name == "broadcast_to") {
      fill([&](const Index& i) { return Broadcast(x[0], i); });
    } else if (name == "slice") {
      fill([&](Index i) {
        int64_t& k = i[a.Int("axis")];
        k = ValueOf(a.AsDim("begin")) + k * a.Int("step");
        return x[0][i];
      });
    } else if (name == "concat") {
      fill([&](Index i) {
        size_t k = 0;
        int64_t& at = i[a.Int("axis")];
        while (at >= x[k].shape[a.Int("axis")]) at -= x[k++].shape[a.Int("axis")];
        return x[k][i];
      });
    } else if (name == "pad") {
      const Index low = ValueOf(a.AsDims("low"));
      fill([&](Index i) {
        for (size_t k = 0; k < i.size(); ++k) {
          i[k] -= low[k];
          if (i[k] < 0 || i[k] >= x[0].shape[k]) return CastTo(r.dtype, NumberOf(a.Number("value")));
        }
        return x[0][i];
      });
    } else if (name == "check_index") {
      fill([&](const Index& i) { return x[0][i]; });
    } else if (name == "gather") {
      const int64_t axis = a.Int("axis"), inner = x[1].shape.size();
      fill([&](const Index& i) {
        Index at(i.begin(), i.begin() + axis);
        at.push_back(clamp(x[1][Index(i.begin() + axis, i.begin() + axis + inner)], x[0].shape[axis]));
        at.insert(at.end(), i.begin() + axis + inner, i.end());
        return x[0][at];
      });
    } else if (name == "take_along") {
      fill([&](Index i) {
        i[a.Int("axis")] = clamp(x[1][i], x[0].shape[a.Int("axis")]);
        return x[0][i];
      });
    } else if (name == "matmul") {
      const size_t n = r.shape.size();
      fill([&](const Index& i) {
        double sum = 0;
        for (int64_t k = 0; k < x[0].shape.back(); ++k) {
          Index l = i, m = i;
          l[n - 1] = k;
          m[n - 2] = k;
          sum += BroadcastBatch(x[0], l) * BroadcastBatch(x[1], m);
        }
        return sum;
      });
    } else {
      std::abort();  // an op that nobody taught this evaluator
    }
  }

  // Broadcasts all axes but the last two.
  static double BroadcastBatch(const Tensor& x, const Index& i) {
    const size_t n = x.shape.size();
    Index at(i.end() - n, i.end());
    for (size_t k = 0; k + 2 < n; ++k) {
      if (x.shape[k] == 1) at[k] = 0;
    }
    return x[at];
  }

  void Reduce(const Op& op, const Tensor& x, Tensor* r) const {
    const std::string& name = op.def->name;
    const bool arg = name.starts_with("arg");
    const Index axes = arg ? Index{op.attrs.Int("axis")} : op.attrs.Ints("axes");
    const bool keepdims = op.attrs.Bool("keepdims");
    std::vector<std::vector<double>> lines(r->data.size());  // what each result element combines, in order
    ForEachIndex(x.shape, [&](const Index& i) {
      Index at;
      for (int64_t k = 0; k < static_cast<int64_t>(i.size()); ++k) {
        const bool reduced = std::find(axes.begin(), axes.end(), k) != axes.end();
        if (!reduced) at.push_back(i[k]);
        if (reduced && keepdims) at.push_back(0);
      }
      lines[r->Flat(at)].push_back(x[i]);
    });
    for (size_t k = 0; k < lines.size(); ++k) {
      const std::vector<double>& line = lines[k];
      double v = 0;
      if (name == "reduce_sum" || name == "reduce_mean") {
        for (double e : line) v += e;
        if (name == "reduce_mean") v /= line.size();
      } else if (name == "reduce_prod" || name == "reduce_all") {
        v = 1;
        for (double e : line) v = IsInt(r->dtype) ? CastTo(r->dtype, v * e) : v * e;
      } else if (name == "reduce_any") {
        for (double e : line) v = v != 0 || e != 0;
      } else if (name == "reduce_max" || name == "reduce_min") {
        v = name == "reduce_max" ? -INFINITY : INFINITY;
        for (double e : line) v = name == "reduce_max" ? MaxNan(v, e) : MinNan(v, e);
      } else {
        size_t best = 0;
        for (size_t e = 1; e < line.size(); ++e) {
          if (std::isnan(line[best])) break;
          if (std::isnan(line[e]) || (name == "argmax" ? line[e] > line[best] : line[e] < line[best])) best = e;
        }
        v = best;
      }
      r->data[k] = v;
    }
  }

  // One result, or values and their places.
  void Scan(const Op& op, const Tensor& x, T* y) const {
    const std::string& name = op.def->name;
    const auto axis = static_cast<size_t>(op.attrs.Int("axis"));
    Tensor& r = (*y)[0];
    ForEachIndex(r.shape, [&](const Index& i) {  // in order along the axis
      Index before = i;
      --before[axis];
      const double e = x[i];
      if (i[axis] == 0) {
        r[i] = e;
        if (y->size() > 1) (*y)[1][i] = 0;
      } else if (y->size() == 1) {
        const double v = name == "cumsum" ? r[before] + e : r[before] * e;
        r[i] = IsInt(r.dtype) ? CastTo(r.dtype, v) : v;
      } else {
        const double best = r[before];
        const bool takes = std::isnan(e) || (!std::isnan(best) && (name == "cummax" ? e >= best : e <= best));
        r[i] = takes ? e : best;
        (*y)[1][i] = takes ? i[axis] : (*y)[1][before];
      }
    });
  }

  void Normalize(const Op& op, const T& x, Tensor* r) const {
    const std::string& name = op.def->name;
    const bool per_channel = name == "batch_norm", softmax = name.find("softmax") != name.npos;
    const Index axes = softmax || per_channel ? Index{op.attrs.Int("axis")} : op.attrs.Ints("axes");
    if (per_channel) {
      const double epsilon = op.attrs.Float("epsilon");
      ForEachIndex(r->shape, [&](const Index& i) {
        const Index c = {i[axes[0]]};
        (*r)[i] = (x[0][i] - x[3][c]) / std::sqrt(x[4][c] + epsilon) * x[1][c] + x[2][c];
      });
      return;
    }
    // Statistics per row: all elements that agree outside of the axes.
    auto key = [&](Index i) {
      for (int64_t a : axes) i[a] = 0;
      return i;
    };
    struct Row {
      std::vector<double> values;
      double largest = -INFINITY, sum = 0, mean = 0, squares = 0, variance = 0;
    };
    std::map<Index, Row> rows;
    ForEachIndex(r->shape, [&](const Index& i) { rows[key(i)].values.push_back(x[0][i]); });
    for (auto& [_, row] : rows) {
      const double n = static_cast<double>(row.values.size());
      for (double v : row.values) {
        row.largest = std::max(row.largest, v);
        row.mean += v / n;
        row.squares += v * v / n;
      }
      for (double v : row.values) {
        row.sum += std::exp(v - row.largest);
        row.variance += (v - row.mean) * (v - row.mean) / n;
      }
    }
    ForEachIndex(r->shape, [&](const Index& i) {
      const Row& row = rows[key(i)];
      const double v = x[0][i];
      const Index inner = softmax ? Index() : Index(i.begin() + axes[0], i.end());
      (*r)[i] = name == "softmax"       ? std::exp(v - row.largest) / row.sum
                : name == "log_softmax" ? v - row.largest - std::log(row.sum)
                : name == "rms_norm"
                    ? v / std::sqrt(row.squares + op.attrs.Float("epsilon")) * x[1][inner]
                    : (v - row.mean) / std::sqrt(row.variance + op.attrs.Float("epsilon")) * x[1][inner] + x[2][inner];
    });
  }

  // Calls f(result, weight, operand), indices of each, for every product of the convolution.
  template <class F>
  static void ForEachProduct(const Attrs& a, const Index& in, const Index& w, const Index& out, F f) {
    const int64_t outputs = w[0] / a.Int("groups");
    ForEachIndex(out, [&](const Index& i) {
      ForEachTap(a, in, i, Index(w.begin() + 2, w.end()), [&](const Index& tap, Index place) {
        Index weight = {i[1], 0};
        weight.insert(weight.end(), tap.begin(), tap.end());
        for (int64_t c = 0; c < w[1]; ++c) {
          weight[1] = c, place[1] = i[1] / outputs * w[1] + c;
          f(i, weight, place);
        }
      });
    });
  }

  void Convolve(const Op& op, const T& x, Tensor* r) const {
    const std::string& name = op.def->name;
    if (name == "conv") {
      ForEachProduct(op.attrs, x[0].shape, x[1].shape, r->shape,
                     [&](const Index& out, const Index& w, const Index& in) { (*r)[out] += x[0][in] * x[1][w]; });
    } else if (name == "conv_input_grad") {
      ForEachProduct(op.attrs, r->shape, x[1].shape, x[0].shape,
                     [&](const Index& out, const Index& w, const Index& in) { (*r)[in] += x[0][out] * x[1][w]; });
    } else {
      ForEachProduct(op.attrs, x[1].shape, r->shape, x[0].shape,
                     [&](const Index& out, const Index& w, const Index& in) { (*r)[w] += x[0][out] * x[1][in]; });
    }
  }

  void Pool(const Op& op, const T& x, T* y) const {
    const std::string& name = op.def->name;
    Tensor& r = (*y)[0];
    const Attrs& a = op.attrs;
    if (name == "max_pool_grad") {
      int64_t plane = 1;
      for (size_t k = 2; k < r.shape.size(); ++k) plane *= r.shape[k];
      ForEachIndex(x[0].shape, [&](const Index& i) {
        const auto place = static_cast<int64_t>(x[1][i]);
        if (place >= 0 && place < plane) r.data[(i[0] * r.shape[1] + i[1]) * plane + place] += x[0][i];
      });
      return;
    }
    const bool grad = name == "avg_pool_grad", max = name == "max_pool";
    const Index in = grad ? r.shape : x[0].shape, out = grad ? x[0].shape : r.shape;
    const Index kernel = a.Ints("kernel");
    ForEachIndex(out, [&](const Index& i) {
      double best = -INFINITY, sum = 0;
      int64_t index = -1;
      std::vector<Index> members;
      ForEachTap(a, in, i, kernel, [&](const Index&, const Index& place) {
        members.push_back(place);
        if (grad) return;
        const double value = x[0][place];
        sum += value;
        if (index < 0 || value > best) best = value, index = FlatPlace(in, place);
      });
      if (max) {
        r[i] = best;
        (*y)[1][i] = index;
        return;
      }
      double count = static_cast<double>(members.size());
      if (a.Bool("count_include_pad")) {
        count = 1;
        for (size_t k = 0; k < kernel.size(); ++k) {
          const int64_t padding = a.Ints("padding").empty() ? 0 : a.Ints("padding")[k];
          const int64_t first = i[2 + k] * a.Ints("stride")[k] - padding;
          count *= static_cast<double>(std::min(first + kernel[k], in[2 + k] + padding) - first);
        }
      }
      if (!grad) r[i] = sum / count;
      for (const Index& m : members) {
        if (grad) r[m] += x[0][i] / count;
      }
    });
  }

  std::map<std::string, int64_t> symbols_;
};

// Values for the tensor parameters of `g`: floats in (low, high), small integers, some ties.
inline std::vector<Tensor> RandomInputs(const Graph& g, const Evaluator& evaluator, std::mt19937& rng, double low = -2,
                                        double high = 2) {
  std::vector<Tensor> inputs;
  for (const Param& p : g.params()) {
    if (p.is_symbol()) continue;
    const TensorType& type = g.TypeOf(p.value);
    Tensor t(type.dtype, evaluator.ValueOf(type.dims));
    for (double& v : t.data) {
      const double u = std::uniform_real_distribution<double>(low, high)(rng);
      v = type.dtype == DType::kBool ? double(rng() % 2)
          : IsFloat(type.dtype)      ? ir::RoundTo(type.dtype, u)
          : IsSigned(type.dtype)     ? double(rng() % 13) - 4
                                     : double(rng() % 9);
    }
    inputs.push_back(std::move(t));
  }
  return inputs;
}

// Same, for the graph of one op. The indices of a max_pool_grad are places of the windows that they belong to; -1
// where all of a window is padding.
inline std::vector<Tensor> RandomSampleInputs(const Graph& g, const Evaluator& evaluator, std::mt19937& rng,
                                              double low = -2, double high = 2) {
  std::vector<Tensor> inputs = RandomInputs(g, evaluator, rng, low, high);
  const Op& op = g.ops()[0];
  if (op.def->name != "max_pool_grad") return inputs;
  const Index in = evaluator.ValueOf(op.attrs.AsDims("input_shape"));
  ForEachIndex(inputs[1].shape, [&](const Index& i) {
    std::vector<int64_t> places;
    ForEachTap(op.attrs, in, i, op.attrs.Ints("kernel"),
               [&](const Index&, const Index& place) { places.push_back(FlatPlace(in, place)); });
    inputs[1][i] = places.empty() ? -1.0 : static_cast<double>(places[rng() % places.size()]);
  });
  return inputs;
}

}  // namespace cinn_like::hlir
