"""by_ctypes.py IMAGE.bin WANTED.bin: runs an emitted LeNet, liblenet.so, from Python."""
import ctypes
import sys

lenet = ctypes.CDLL("./liblenet.so")
image = (ctypes.c_float * 784).from_buffer_copy(open(sys.argv[1], "rb").read())
made = (ctypes.c_float * 10)()
net = ctypes.c_void_p()
if lenet.lenet_create(ctypes.byref(net), None):
    sys.exit("lenet_create failed")
inputs, outputs = ((ctypes.c_void_p * 1)(ctypes.addressof(image)),
                   (ctypes.c_void_p * 1)(ctypes.addressof(made)))
if lenet.lenet_run_host(net, inputs, outputs, None):
    lenet.lenet_message.restype = ctypes.c_char_p
    sys.exit(lenet.lenet_message(net).decode())
lenet.lenet_destroy(net)
print("probabilities:", list(made))
if bytes(made) != open(sys.argv[2], "rb").read():
    sys.exit("other bits than the C program's")
