"""stub"""
def enabled(): return False
