"""terminal.py COLUMNS COMMAND...: runs it on a pseudo-terminal of that width and writes what it draws
there; exits as it does."""
import fcntl
import os
import pty
import struct
import sys
import termios

process, terminal = pty.fork()
if process == 0:
    size = struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0)
    fcntl.ioctl(0, termios.TIOCSWINSZ, size)
    os.execvp(sys.argv[2], sys.argv[2:])
while True:
    try:
        drawn = os.read(terminal, 65536)
    except OSError:  # it has ended
        break
    if not drawn:
        break
    sys.stdout.buffer.write(drawn)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
