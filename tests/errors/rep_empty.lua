local s = ("").rep("", 1 << 60)
