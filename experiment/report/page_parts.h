// What every page has: its style, and the script that sorts tables and shows what is pointed at.
#pragma once

namespace psgd {

extern const char kPageStyle[];
extern const char kPageScript[];

}  // namespace psgd
