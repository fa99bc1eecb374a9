// Passes on graph text, or passes and schedule steps on loop text: text in, text out. What cinn_opt and
// CinnRunOnText do.
#pragma once
#include <string>
#include <string_view>

#include "cinn_like/base/pass_pipeline.h"

namespace cinn_like {

// What is given back: what comes out in the end; also what went in and what each step and pass that changes something
// makes, under a headline; or what each of them changes, beside the text before.
enum class Show : uint8_t { kEnd, kSteps, kDiffs };

// `schedule`, steps one a line (ir/schedule/schedule.h), runs first, on loop text alone; then `passes`, separated by
// '|', of which `lower` is all of lowering. Without either the text is parsed, verified and printed. Graph text starts
// with `graph`, after `//` comments; all other is loop text.
StatusOr<std::string> RunOnText(std::string_view text, std::string_view schedule, std::string_view passes,
                                const PassContext& context, Show show = Show::kEnd);

// The code that the text becomes for context.target: `kind` as CompiledFunction::Source has it ("cuda", "resources",
// "asm", ...). Graph text goes through `passes` first; of loop text they are further steps of the schedule.
StatusOr<std::string> EmitText(std::string_view text, std::string_view schedule, std::string_view passes,
                               std::string_view kind, const PassContext& context);

// "lower, lower_blocks, ..."
std::string LoopPassList();

}  // namespace cinn_like
