-- ResNet-18: 11.69 M parameters, 1.82 GMAC per image at 224x224.
require("resnet").build{2, 2, 2, 2}
