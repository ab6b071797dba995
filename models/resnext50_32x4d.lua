-- ResNeXt-50: 32 groups of 4 channels; 25.03 M parameters, 4.23 GMAC per image at 224x224.
require("resnet").build({3, 4, 6, 3}, {block = require("bottleneck")(32, 4)})
