#include <cstring>

#include "engine/onednn/lower.h"

namespace psgd::onednn {

// Plain memory stays the same under another shape. Only external tensors need a copy.
void Lower(const Reshape&, const Context& c) {
  Lowering& l = c.lowering;
  if (!l.graph().tensors[c.out(0)].external) {
    const Type type = TypeOf(l.Native(c.in(0)).desc);
    l.PutShared(c.out(0), {l.Plain(c.out(0), type), l.GetPlain(c.in(0), type).buffer});
    return;
  }
  const View x = l.GetPlain(c.in(0));
  const BufferId from = x.buffer, to = l.PutPlain(c.out(0)).buffer;
  const size_t bytes = x.desc.get_size();
  l.Call(
      [=](const Buffers& buffers, const Step&) { std::memcpy(buffers[to], buffers[from], bytes); });
}

}  // namespace psgd::onednn
