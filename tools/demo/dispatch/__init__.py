"""The demo of events, subscriptions and deliveries."""
