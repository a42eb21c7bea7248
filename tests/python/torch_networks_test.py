"""The networks that the golden numbers and bench/vs_torch.py use work on any device: none makes a tensor
on the processor beside those that it is given."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "golden"))

try:
    import torch
    import torch_networks as networks
except ImportError as error:
    print(f"no PyTorch: {error}")
    sys.exit(77)


class DeviceTest(unittest.TestCase):
    # A device that has shapes and no numbers, so it is everywhere.
    DEVICE = "meta"

    def test_masks_are_where_the_tokens_are(self):
        self.assertEqual(networks.future_of(3, self.DEVICE).device.type, self.DEVICE)
        self.assertEqual(networks.future_of(3, "cpu").tolist(),
                         [[False, True, True], [False, False, True], [False, False, False]])

    def test_sequences_of_any_device_are_taken(self):
        for network, shape in [(networks.Gpt(), (2, 9)), (networks.Transformer(), (2, 13)),
                               (networks.LstmLm(), (2, 9)), (networks.BagOfTokens(), (2, 7)),
                               (networks.TransformerEncoder(), (2, 7))]:
            tokens = torch.zeros(shape, dtype=torch.int64, device=self.DEVICE)
            logits = network.to(self.DEVICE)(tokens)
            self.assertEqual(logits.device.type, self.DEVICE, type(network).__name__)

    def test_images_of_any_device_are_taken(self):
        for network, shape in [(networks.Lenet5(), (2, 1, 28, 28)), (networks.Resnet20(), (2, 3, 32, 32)),
                               (networks.Unet(), (1, 1, 32, 32))]:
            logits = network.to(self.DEVICE)(torch.zeros(shape, device=self.DEVICE))
            self.assertEqual(logits.device.type, self.DEVICE, type(network).__name__)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
