// Whether what a schedule step has made may run as it stands: loops that run at once, memory that iterations have for
// themselves, threads that meet. Steps ask after they have changed a Func; lowering asks once more.
#pragma once
#include <vector>

#include "ir/schedule/dependence.h"
#include "ir/stmt.h"

namespace cinn_like::ir {

// Whether each of these loops of `f` (other statements are passed over) may run as its kind says. An error names the
// two touches that stand against it and shows the loop. `changed`: by the step; the rest runs as it may.
Status CheckLoopKinds(const Func& f, const std::vector<Stmt>& loops, const Dependences::Changed& changed = {});
// Whether an allocation may live where its scope says: what is not in global memory is made anew in the innermost loop
// that holds all of its uses, and what is in global memory all threads share. `before`: where it lived.
Status CheckMemory(const Func& f, Buffer b, Scope before);
// The same of all that is not in global memory and whose uses a step has brought together in a loop that did not hold
// them all before.
Status CheckPlaces(const Func& before, const Func& after);
// Whether the threads of every kernel meet in global memory nowhere: what one writes no other touches, in whatever
// loops on the same axes, since nothing makes one wait for another there. A statement in no loop on an axis is the
// first thread's.
Status CheckThreads(const Func& f);

}  // namespace cinn_like::ir
