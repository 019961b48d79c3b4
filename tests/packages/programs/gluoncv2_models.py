"""Networks of gluoncv2, a zoo of its own."""

import cases
from gluoncv2.model_provider import get_model

NAMES = """
alexnet:224 vgg11:224 resnet18:224 preresnet18:224 resnext26_32x4d:224 seresnet10:224 densenet121:224
mobilenet_wd4:224 mobilenetv2_wd4:224 mobilenetv3_small_w7d20:224 shufflenet_g3_wd4:224 shufflenetv2_wd2:224
squeezenet_v1_0:224 squeezeresnet_v1_1:224 igcv3_wd4:224 mnasnet_small:224 darknet_tiny:224 efficientnet_b0:224
ghostnet:224 condensenet74_c4_g4:224 bninception:224 fbnet_cb:224 proxylessnas_cpu:224 dpn68:224 resnet20_cifar10:32
pyramidnet110_a48_cifar10:32 diaresnet20_cifar10:32 ibn_resnet50:224 bam_resnet18:224 cbam_resnet18:224 drnc26:224
menet108_8x1_g3:224 hardnet39ds:224 resattnet56:224 airnext50_32x4d_r2:224 lwopenpose2d_mobilenet_cmupan_coco:224
""".split()


def case(entry):
    name, _, size = entry.partition(":")

    def run():
        net = get_model(name, pretrained=False)
        net.initialize()
        net.hybridize()
        x = cases.ramp(1, 3, int(size), int(size))
        net(x)
        cases.fill(net)
        return {"names": cases.names(net), "outputs": net(x)}

    return name, run


if __name__ == "__main__":
    cases.run(dict(map(case, NAMES)))
