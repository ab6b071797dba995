-- ResNet-50: 25.56 M parameters, 4.09 GMAC per image at 224x224.
require("resnet").build({3, 4, 6, 3}, {block = require("bottleneck")()})
