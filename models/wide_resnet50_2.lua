-- Wide ResNet-50-2: 3x3 convolutions twice as wide; 68.88 M parameters, 11.40 GMAC per image at
-- 224x224.
require("resnet").build({3, 4, 6, 3}, {block = require("bottleneck")(1, 128)})
