// dgc: deep gradient compression: few elements are sent, and extra steps keep that from hurting.
// Lin, Han, Mao, Wang, Dally: "Deep gradient compression: reducing the communication bandwidth for
// distributed training", ICLR 2018.
//
// Steps, with a velocity u (momentum) and a sum v (the residual) for each element:
//   1. local gradient clipping: g = gradient, scaled down to the norm
//      clip * N^(-1/2) * (n / N_t)^(1/2) if it is longer. N is the number of workers; n of the
//      tensor's N_t elements are in this slice. So clip bounds the norm of a tensor's gradient
//      summed over workers with independent noise. (The paper clips the whole model's gradient at
//      once, which is unknown before the last layer's gradient is.) 0: no clipping
//   2. momentum correction: u = momentum * u + g;  v = v + u
//   3. warm-up: at step t of the first W, the density is 0.25^(1 - t / W) * density^(t / W), which
//      passes the paper's 25 %, 6.25 %, 1.6 %, 0.4 % at its quarters on the way to 0.1 %. Codecs
//      count in steps; InSteps of policy.h converts epochs to steps
//   4. the largest |v| are sent, selected as by topk with select: sampled
//   5. momentum factor masking: u and v of sent elements become 0. If all elements are sent, none
//      waits, and u goes on: that is plain momentum, as for tensors that travel whole
// Without a residual, v is u itself.
//
// Wire: as sparse_payload.h says, with fp32. At density 0.001: 0.044 bits an element. State: u,
// kept in checkpoints with v. Biased; v makes up for it. The worker applies the momentum, so the
// server's must be 0. Conservation holds for what enters v: payload + new v = old v + new u.
#pragma once

#include "compression/kernels.h"

namespace psgd {

StatusOrCodec MakeDgc(const DgcCodec& config, uint32_t workers, const CodecKernels& kernels);

}  // namespace psgd
