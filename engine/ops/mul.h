// y = a b; da = dy b, db = dy a, which are Mul too    a, b, y: any one shape, in a's layout
#pragma once

namespace psgd {

// a, b -> y
struct Mul {};

}  // namespace psgd
