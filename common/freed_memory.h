// What malloc does with memory that is free again.
#pragma once

namespace psgd {

// From now on malloc keeps up to 1 GiB for later in place of giving it back to the system. The
// messages of a step are as large as the model, and the system clears each page of memory that is
// given again.
void KeepFreedMemory();

}  // namespace psgd
