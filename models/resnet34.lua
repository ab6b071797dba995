-- ResNet-34: 21.8 M parameters, 3.67 GMAC per image at 224x224.
require("resnet").build{3, 4, 6, 3}
