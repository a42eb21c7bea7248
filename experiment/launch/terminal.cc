#include "experiment/launch/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace psgd {

Terminal DescribeTerminal(int fd) {
  Terminal terminal;
  terminal.interactive = isatty(fd) == 1;
  const char* no_color = std::getenv("NO_COLOR");
  terminal.color = terminal.interactive && (no_color == nullptr || *no_color == '\0');
  return terminal;
}

int TerminalWidth(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

int TerminalHeight(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

}  // namespace psgd
