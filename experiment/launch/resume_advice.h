// What to do with a run that did not end well.
#pragma once

#include <string>

namespace psgd {

bool HasCheckpoint(const std::string& run_dir);

// One sentence for people: how to go on from the run's newest checkpoint, or that there is none.
std::string ResumeAdvice(const std::string& run_dir);

}  // namespace psgd
