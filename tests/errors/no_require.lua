nn.output("y", nn.input("x", {2, 3}):relu())
