// What standard error can show.
#pragma once

namespace psgd {

struct Terminal {
  bool interactive = false;  // a line may be redrawn
  bool color = false;        // NO_COLOR (no-color.org) turns it off
};

Terminal DescribeTerminal(int fd);

// Columns, as of now: the window may change its size. 80 when there is no telling.
int TerminalWidth(int fd);
// Lines, likewise; else 24.
int TerminalHeight(int fd);

}  // namespace psgd
