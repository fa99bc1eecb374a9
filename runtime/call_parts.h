// Functions called one after another as one, with tensors of the host between them: what becomes of a graph that
// several devices share (cinn_like/partition.h), in the compiler's process and in an exported library.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cinn_like/base/status.h"
#include "runtime/call.h"

namespace cinn_like {

struct PartsPlan {
  struct Param {
    std::string name, type;  // for errors: "x", "f32[n,64]"
    bool is_static = false;  // what was prepared need not be given again
  };
  // A number that each part takes before its tensors. The first of these parameters that is given says it.
  struct Symbol {
    struct Place {
      int param = 0;
      int dim = -1;  // of a tensor; -1: the parameter is the number
    };
    std::string name;
    std::vector<Place> places;
  };
  // Values have numbers: parameters first, then what parts make.
  struct Part {
    std::string name;
    std::vector<int> reads, makes;
    std::vector<int> gives;    // for each value that it makes: which result of the whole it is, or -1
    std::vector<int> statics;  // its static parameters, among those of the whole
  };
  std::string name;
  int results = 0;
  std::vector<Param> params;
  std::vector<Symbol> symbols;
  std::vector<Part> parts;

  // Lines.
  std::string Encode() const;
  // DataLoss where a line is none, or speaks of what is not there.
  static StatusOr<PartsPlan> Decode(std::string_view text);
};

struct CalledPart {
  CinnFunctionPtr entry;
  void* self;
};

// The call of the whole, by its parts in order.
Status CallParts(const PartsPlan& plan, std::span<const CalledPart> parts, const CinnValue* args, int32_t num_args,
                 const CinnCallEnv* env);

}  // namespace cinn_like
